//! Values of Luau as JSON, and the reverse.

use mlua::{Lua, Value as LuaValue};
use serde_json::{Map, Number, Value};

/// Maximum depth of a value.
const DEPTH_MAX: usize = 32;
/// Members of all tables together.
const MEMBERS_MAX: usize = 100_000;

/// Returns a value of Luau as JSON. A table with numbers as keys is an array; an empty one is an object, but for the members
/// of a schema that are lists.
///
/// # Errors
/// It holds a function or something else that JSON doesn't have, is nested too deeply, or is too large.
pub(super) fn of_lua(value: &LuaValue) -> Result<Value, String> {
    convert(value, DEPTH_MAX, &mut 0)
}

fn convert(value: &LuaValue, depth: usize, members: &mut usize) -> Result<Value, String> {
    Ok(match value {
        LuaValue::Nil => Value::Null,
        value if value.is_null() => Value::Null,
        LuaValue::Boolean(it) => (*it).into(),
        LuaValue::Integer(it) => (*it).into(),
        // A whole number of Luau is a float, too.
        #[allow(clippy::cast_possible_truncation, reason = "only whole numbers of at most 53 bits are cast")]
        LuaValue::Number(it) if it.fract() == 0.0 && it.abs() < 9e15 => (*it as i64).into(),
        LuaValue::Number(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
        LuaValue::String(it) => it.to_str().map_err(|_| "a text isn't UTF-8")?.to_owned().into(),
        LuaValue::Table(table) => {
            let inner = depth.checked_sub(1).ok_or("it is nested too deeply")?;
            *members += table.raw_len();
            if table.raw_len() > 0 {
                if *members > MEMBERS_MAX {
                    return Err("it has too many members".to_owned());
                }
                let items = table.sequence_values::<LuaValue>();
                let items = items.map(|it| convert(&it.map_err(|error| error.to_string())?, inner, members));
                return items.collect::<Result<Vec<_>, _>>().map(Value::Array);
            }
            let mut object = Map::new();
            for pair in table.pairs::<LuaValue, LuaValue>() {
                let (key, value) = pair.map_err(|error| error.to_string())?;
                let LuaValue::String(key) = key else { return Err("a key is no text".to_owned()) };
                let key = key.to_str().map_err(|_| "a key isn't UTF-8")?.to_owned();
                *members += 1;
                if *members > MEMBERS_MAX {
                    return Err("it has too many members".to_owned());
                }
                let value = match convert(&value, inner, members)? {
                    Value::Object(empty) if empty.is_empty() && matches!(&*key, "required" | "enum") => {
                        Value::Array(Vec::new())
                    }
                    value => value,
                };
                object.insert(key, value);
            }
            Value::Object(object)
        }
        other => return Err(format!("a {} is no JSON", other.type_name())),
    })
}

/// Makes a value of Luau from JSON.
///
/// # Errors
/// The interpreter has no memory left.
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::NULL,
        Value::Bool(it) => LuaValue::Boolean(*it),
        Value::Number(it) => LuaValue::Number(it.as_f64().unwrap_or_default()),
        Value::String(it) => LuaValue::String(lua.create_string(it)?),
        Value::Array(items) => {
            let table = lua.create_table()?;
            for item in items {
                table.raw_push(to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(members) => {
            let table = lua.create_table()?;
            for (key, value) in members {
                table.raw_set(key.as_str(), to_lua(lua, value)?)?;
            }
            LuaValue::Table(table)
        }
    })
}
