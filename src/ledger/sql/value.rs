//! Values of parameters and columns: whole numbers, text, bytes, nothing.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value of a statement's parameter or of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// No value.
    Null,
    /// An integer; 0 and 1 mean no and yes.
    Int(i64),
    /// Text.
    Text(&'v str),
    /// Bytes.
    Bytes(&'v [u8]),
}

impl<'v> Value<'v> {
    /// A column of SQLite.
    pub fn of_sqlite(value: ValueRef<'v>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Text(text) => Self::Text(std::str::from_utf8(text).ok()?),
            ValueRef::Blob(bytes) => Self::Bytes(bytes),
            ValueRef::Real(_) => return None,
        })
    }
}

/// A value that owns its content.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub enum Owned {
    /// No value.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

#[cfg(feature = "postgres")]
impl Owned {
    /// A copy of a value.
    pub fn of(value: &Value<'_>) -> Self {
        match *value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_owned()),
        }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A type that can be a parameter.
pub trait AsValue {
    /// Its value.
    fn as_value(&self) -> Value<'_>;
}

impl AsValue for str {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for String {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl AsValue for [u8] {
    fn as_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl AsValue for i64 {
    fn as_value(&self) -> Value<'_> {
        Value::Int(*self)
    }
}

impl AsValue for u16 {
    fn as_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl AsValue for bool {
    fn as_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl AsValue for Value<'_> {
    fn as_value(&self) -> Value<'_> {
        *self
    }
}

impl<T: AsValue> AsValue for Option<T> {
    fn as_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, AsValue::as_value)
    }
}

impl<T: AsValue + ?Sized> AsValue for &T {
    fn as_value(&self) -> Value<'_> {
        (*self).as_value()
    }
}

/// The parameters of a statement.
pub trait Params {
    /// Their values, in order.
    fn values(&self) -> Vec<Value<'_>>;
}

impl Params for &[&dyn AsValue] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(|value| value.as_value()).collect()
    }
}

impl<T: AsValue, const N: usize> Params for [T; N] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(AsValue::as_value).collect()
    }
}

impl Params for &[Value<'_>] {
    fn values(&self) -> Vec<Value<'_>> {
        self.to_vec()
    }
}

/// A type that a column can be read as.
pub trait FromValue: Sized {
    /// Reads it; `None` if the column has another type.
    fn of(value: Value<'_>) -> Option<Self>;
}

impl FromValue for i64 {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }
}

impl FromValue for u16 {
    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl FromValue for bool {
    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::of(other).map(Some),
        }
    }
}
