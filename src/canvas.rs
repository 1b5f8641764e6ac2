//! A board of atoms as a pure fold: a state and operations produce the next state, the same on every machine. It knows neither
//! users nor storage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use crate::base::canonical::canonical;
use crate::base::hash;
use crate::schema::Schema;

/// Limit on the atoms of a canvas.
pub const ATOMS_MAX: usize = 20_000;
/// Limit on an atom in canonical form, in bytes.
pub const ATOM_BYTES_MAX: usize = 64 * 1024;
/// Limit on the operations of a command.
pub const OPS_MAX: usize = 200;
/// Limit on the parts of a path.
const PATH_DEPTH_MAX: usize = 8;
/// Limit on the nesting of arrays and objects.
const DEPTH_MAX: usize = 32;
/// Limit on an id or type, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// An atom.
#[derive(Clone, Debug)]
pub struct Atom {
    /// Its type.
    pub kind: String,
    /// The atom that contains it.
    pub parent: Option<String>,
    /// Its place among the atoms of its parent: text, compared by bytes.
    pub order: String,
    /// Its properties.
    pub props: Map<String, Value>,
    /// Its canonical form, once requested; a change of the atom discards it.
    text: OnceLock<String>,
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, &self.parent, &self.order, &self.props) == (&other.kind, &other.parent, &other.order, &other.props)
    }
}

impl Atom {
    /// Its canonical form, by its id.
    fn text(&self, id: &str) -> &str {
        // Values that were folded in have a canonical form.
        self.text.get_or_init(|| atom_text(id, self).unwrap_or_default())
    }
}

/// A canvas at a revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The revision.
    pub rev: i64,
    /// The atoms, by id. States share unchanged atoms, so that the next state of a large board is cheap.
    pub atoms: BTreeMap<Arc<str>, Arc<Atom>>,
}

/// An operation that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {index}: {why}")]
pub struct OpError {
    /// Its place in the command, from 0.
    pub index: usize,
    /// The reason.
    pub why: String,
}

impl State {
    /// The atoms as endpoints return them, sorted by id.
    #[must_use]
    pub fn atoms_value(&self) -> Value {
        self.atoms.iter().map(|(id, atom)| atom_value(id, atom)).collect()
    }

    /// The atoms as canonical JSON. Only changed atoms are written again.
    #[must_use]
    pub fn atoms_text(&self) -> String {
        let texts: Vec<&str> = self.atoms.iter().map(|(id, atom)| atom.text(id)).collect();
        format!("[{}]", texts.join(","))
    }

    /// Reads a state from the value that [`Self::atoms_value`] wrote.
    #[must_use]
    pub fn read(rev: i64, atoms: &Value) -> Option<Self> {
        let mut state = Self { rev, atoms: BTreeMap::new() };
        for value in atoms.as_array()? {
            let (id, atom) = read_atom(value).ok()?;
            state.atoms.insert(id.into(), Arc::new(atom));
        }
        Some(state)
    }

    /// SHA-256 of the canonical form of revision and atoms.
    #[must_use]
    pub fn hash(&self) -> String {
        // The canonical form of the whole consists of the forms of its parts, so that only changed atoms are written again.
        let mut hasher = hash::Hasher::new();
        hasher.update(b"{\"atoms\":[");
        for (number, (id, atom)) in self.atoms.iter().enumerate() {
            if number > 0 {
                hasher.update(b",");
            }
            hasher.update(atom.text(id).as_bytes());
        }
        hasher.update(format!("],\"rev\":{}}}", self.rev).as_bytes());
        hasher.finish_hex()
    }

    /// Returns the atom with this id, to change it.
    fn change(&mut self, id: &str) -> Result<&mut Atom, String> {
        let atom = self.atoms.get_mut(id).ok_or_else(|| format!("there is no atom {id}"))?;
        let atom = Arc::make_mut(atom);
        atom.text.take();
        Ok(atom)
    }
}

/// The types of atoms whose properties have a schema; the console uses these schemas, too.
static KINDS: LazyLock<Vec<(&str, Schema)>> = LazyLock::new(|| {
    let texts = [("note", include_str!("web/atoms/note.json")), ("link", include_str!("web/atoms/link.json"))];
    let read = |text: &str| Schema::new(serde_json::from_str(text).ok()?).ok();
    texts.into_iter().filter_map(|(kind, text)| Some((kind, read(text)?))).collect()
});

/// Checks the properties of the atoms that operations have changed, in the state after them, against the schemas of their types.
/// A type without a schema may have any properties. It is not part of [`fold`], so that the contents of an existing log stay
/// valid.
///
/// # Errors
/// The first operation that leaves an atom which violates the schema of its type.
pub fn check_kinds(next: &State, ops: &[Value]) -> Result<(), OpError> {
    for (index, op) in ops.iter().enumerate() {
        let id = op["id"].as_str().or_else(|| op["atom"]["id"].as_str()).unwrap_or_default();
        let Some(atom) = next.atoms.get(id) else { continue };
        let Some((kind, schema)) = KINDS.iter().find(|(kind, _)| *kind == atom.kind) else { continue };
        let problems = schema.problems(&atom.props.clone().into());
        if !problems.is_empty() {
            return Err(OpError { index, why: format!("the {kind} {id}: {}", problems.join("; ")) });
        }
    }
    Ok(())
}

/// Applies the operations of one command: all or none. The revision grows by one.
///
/// # Errors
/// The first operation that can't be applied.
pub fn fold(state: &State, ops: &[Value]) -> Result<State, OpError> {
    let mut next = state.clone();
    fold_in(&mut next, ops)?;
    Ok(next)
}

/// Applies the operations in place, for a caller that doesn't need the previous state: the whole board isn't copied for each
/// command. After an error the state is unusable.
///
/// # Errors
/// The first operation that can't be applied.
pub fn fold_in(state: &mut State, ops: &[Value]) -> Result<(), OpError> {
    if ops.is_empty() || ops.len() > OPS_MAX {
        return Err(OpError { index: 0, why: format!("a command has 1 to {OPS_MAX} operations") });
    }
    state.rev += 1;
    for (index, op) in ops.iter().enumerate() {
        apply(state, op).map_err(|why| OpError { index, why })?;
    }
    Ok(())
}

/// Returns the places that a command changes, as pairs of an atom and a path; an atom without a path means the whole atom.
#[must_use]
pub fn touched(ops: &[Value]) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for op in ops {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match op["op"].as_str() {
            Some("create") => all.insert((text(&op["atom"]["id"]), String::new())),
            Some("set" | "unset") => all.insert((text(&op["id"]), text(&op["path"]))),
            _ => all.insert((text(&op["id"]), String::new())),
        };
    }
    all
}

/// Returns whether two sets of touched places are disjoint; a place overlaps everything within it.
#[must_use]
pub fn is_disjoint(one: &BTreeSet<(String, String)>, other: &BTreeSet<(String, String)>) -> bool {
    let within = |path: &str, of: &str| {
        path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || of.is_empty())
    };
    one.iter()
        .all(|(atom, path)| other.iter().all(|(id, place)| atom != id || !(within(path, place) || within(place, path))))
}

fn apply(state: &mut State, op: &Value) -> Result<(), String> {
    let fields = op.as_object().ok_or("it is no object")?;
    let name = fields.get("op").and_then(Value::as_str).ok_or("op is missing")?;
    let known: &[&str] = match name {
        "create" => &["op", "atom"],
        "set" => &["op", "id", "path", "value"],
        "unset" => &["op", "id", "path"],
        "move" => &["op", "id", "parent", "order"],
        "delete" => &["op", "id"],
        _ => return Err(format!("there is no operation {name:?}")),
    };
    if let Some(other) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("{name} has no field {other:?}"));
    }
    match name {
        "create" => create(state, fields.get("atom").ok_or("atom is missing")?),
        "set" => {
            let value = fields.get("value").ok_or("value is missing")?;
            change(state, fields, |props, path| set(props, path, value.clone()))
        }
        "unset" => change(state, fields, unset),
        "move" => shift(state, fields),
        _ => delete(state, id_of(fields)?),
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn id_of(fields: &Map<String, Value>) -> Result<&str, String> {
    fields.get("id").and_then(Value::as_str).filter(|id| is_name(id)).ok_or_else(|| "id is missing".to_owned())
}

fn read_atom(value: &Value) -> Result<(String, Atom), String> {
    let fields = value.as_object().ok_or("the atom is no object")?;
    let known = ["id", "type", "parent", "order", "props"];
    if let Some(other) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("an atom has no field {other:?}"));
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| is_name(text)).map(str::to_owned);
    let parent = match fields.get("parent") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text("parent").ok_or("parent is no id")?),
    };
    let props = match fields.get("props") {
        None => Map::new(),
        Some(props) => props.as_object().cloned().ok_or("props is no object")?,
    };
    let (kind, order) = (text("type").ok_or("type is missing")?, text("order").ok_or("order is missing")?);
    Ok((text("id").ok_or("id is missing")?, Atom { kind, parent, order, props, text: OnceLock::new() }))
}

fn atom_value(id: &str, atom: &Atom) -> Value {
    json!({"id": id, "type": atom.kind, "parent": atom.parent, "order": atom.order, "props": atom.props})
}

fn check_size(id: &str, atom: &Atom) -> Result<(), String> {
    let text = atom_text(id, atom)?;
    if text.len() > ATOM_BYTES_MAX {
        return Err(format!("an atom has at most {ATOM_BYTES_MAX} bytes"));
    }
    let _ = atom.text.set(text);
    Ok(())
}

/// The canonical form of an atom.
fn atom_text(id: &str, atom: &Atom) -> Result<String, String> {
    canonical(&atom_value(id, atom), DEPTH_MAX).map_err(|error| error.to_string())
}

fn create(state: &mut State, value: &Value) -> Result<(), String> {
    let (id, atom) = read_atom(value)?;
    if state.atoms.contains_key(id.as_str()) {
        return Err(format!("the atom {id} is there already"));
    }
    if state.atoms.len() >= ATOMS_MAX {
        return Err(format!("a canvas has at most {ATOMS_MAX} atoms"));
    }
    if let Some(parent) = atom.parent.as_ref().filter(|parent| !state.atoms.contains_key(parent.as_str())) {
        return Err(format!("there is no atom {parent}"));
    }
    check_size(&id, &atom)?;
    state.atoms.insert(id.into(), Arc::new(atom));
    Ok(())
}

fn change(
    state: &mut State,
    fields: &Map<String, Value>,
    act: impl FnOnce(&mut Map<String, Value>, &[String]) -> Result<(), String>,
) -> Result<(), String> {
    let id = id_of(fields)?;
    let path = fields.get("path").and_then(Value::as_str).ok_or("path is missing")?;
    let path = parts(path)?;
    let atom = state.change(id)?;
    act(&mut atom.props, &path)?;
    check_size(id, atom)
}

/// The parts of a JSON Pointer.
fn parts(path: &str) -> Result<Vec<String>, String> {
    let rest = path.strip_prefix('/').ok_or("a path begins with /")?;
    let parts: Vec<String> = rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    if parts.len() > PATH_DEPTH_MAX {
        return Err(format!("a path has at most {PATH_DEPTH_MAX} parts"));
    }
    Ok(parts)
}

fn set(props: &mut Map<String, Value>, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, above)) = path.split_last() else { return Err("the path is empty".into()) };
    let mut place = props;
    for part in above {
        let inner = place.entry(part.clone()).or_insert_with(|| json!({}));
        place = inner.as_object_mut().ok_or_else(|| format!("{part} is no object"))?;
    }
    place.insert(last.clone(), value);
    Ok(())
}

fn unset(props: &mut Map<String, Value>, path: &[String]) -> Result<(), String> {
    let Some((last, above)) = path.split_last() else { return Err("the path is empty".into()) };
    let mut place = props;
    for part in above {
        let Some(inner) = place.get_mut(part).and_then(Value::as_object_mut) else { return Ok(()) };
        place = inner;
    }
    place.remove(last);
    Ok(())
}

fn shift(state: &mut State, fields: &Map<String, Value>) -> Result<(), String> {
    let id = id_of(fields)?;
    let parent = match fields.get("parent") {
        None | Some(Value::Null) => None,
        Some(parent) => Some(parent.as_str().ok_or("parent is no id")?.to_owned()),
    };
    let order = fields.get("order").and_then(Value::as_str).filter(|order| is_name(order)).ok_or("order is missing")?;
    // An atom can't contain itself.
    let mut above = parent.clone();
    let mut steps = 0;
    while let Some(name) = above {
        if name == id || steps > ATOMS_MAX {
            return Err(format!("the atom {id} can't lie within itself"));
        }
        steps += 1;
        above = state.atoms.get(name.as_str()).ok_or_else(|| format!("there is no atom {name}"))?.parent.clone();
    }
    let atom = state.change(id)?;
    atom.parent = parent;
    atom.order = order.to_owned();
    Ok(())
}

/// Removes an atom with everything in it.
fn delete(state: &mut State, id: &str) -> Result<(), String> {
    if state.atoms.remove(id).is_none() {
        return Err(format!("there is no atom {id}"));
    }
    let mut gone: BTreeSet<Arc<str>> = [id.into()].into();
    loop {
        let is_below = |atom: &Atom| atom.parent.as_ref().is_some_and(|parent| gone.contains(parent.as_str()));
        let below: Vec<Arc<str>> =
            state.atoms.iter().filter(|(_, atom)| is_below(atom)).map(|(id, _)| id.clone()).collect();
        if below.is_empty() {
            return Ok(());
        }
        for id in below {
            state.atoms.remove(&id);
            gone.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> State {
        let ops = [
            json!({"op": "create", "atom": {"id": "a", "type": "note", "order": "m", "props": {"text": "one"}}}),
            json!({"op": "create", "atom": {"id": "b", "type": "note", "parent": "a", "order": "m"}}),
        ];
        fold(&State::default(), &ops).expect("a board")
    }

    #[test]
    fn operations_fold_and_a_command_applies_whole_or_not_at_all() {
        let board = board();
        assert_eq!((board.rev, board.atoms.len()), (1, 2));
        let next = fold(&board, &[json!({"op": "set", "id": "a", "path": "/size/x", "value": 3})]).expect("set");
        assert_eq!(next.atoms["a"].props["size"], json!({"x": 3}));
        let back = fold(&next, &[json!({"op": "unset", "id": "a", "path": "/size"})]).expect("unset");
        assert_eq!(back.atoms, board.atoms);
        let moved = fold(&board, &[json!({"op": "move", "id": "b", "parent": null, "order": "z"})]).expect("move");
        assert_eq!((moved.atoms["b"].parent.as_deref(), moved.atoms["b"].order.as_str()), (None, "z"));
        let gone = fold(&board, &[json!({"op": "delete", "id": "a"})]).expect("delete");
        assert!(gone.atoms.is_empty(), "with what lies in it");
        let set = json!({"op": "set", "id": "a", "path": "/t", "value": 1});
        let error = fold(&board, &[set, json!({"op": "delete", "id": "none"})]).expect_err("no such atom");
        assert_eq!(error.index, 1);
    }

    #[test]
    fn invalid_operations_are_refused() {
        let board = board();
        for op in [
            json!(1),
            json!({}),
            json!({"op": "paint"}),
            json!({"op": "delete"}),
            json!({"op": "delete", "id": "a", "more": 1}),
            json!({"op": "set", "id": "a", "path": "no/slash", "value": 1}),
            json!({"op": "set", "id": "a", "path": "/text/x", "value": 1}),
            json!({"op": "set", "id": "a", "path": "/1/2/3/4/5/6/7/8/9", "value": 1}),
            json!({"op": "move", "id": "a", "parent": "b", "order": "m"}),
            json!({"op": "move", "id": "a", "parent": "a", "order": "m"}),
            json!({"op": "create", "atom": {"id": "a", "type": "note", "order": "m"}}),
            json!({"op": "create", "atom": {"id": "c", "type": "note", "order": "m", "parent": "none"}}),
            json!({"op": "set", "id": "a", "path": "/big", "value": "x".repeat(ATOM_BYTES_MAX)}),
            json!({"op": "set", "id": "a", "path": "/n", "value": 9_007_199_254_740_993_u64}),
        ] {
            assert!(fold(&board, std::slice::from_ref(&op)).is_err(), "{op}");
        }
        assert!(fold(&board, &[]).is_err());
    }

    #[test]
    fn the_same_state_has_the_same_hash_and_is_read_back() {
        let one = board();
        let read = State::read(one.rev, &one.atoms_value()).expect("a state");
        assert_eq!((read.hash(), &read), (one.hash(), &one));
        let set = |value: Value| fold(&one, &[json!({"op": "set", "id": "a", "path": "/n", "value": value})]);
        let (zero, minus) = (set(json!(0.0)).expect("a state"), set(json!(-0.0)).expect("a state"));
        assert_eq!(zero.hash(), minus.hash());
        assert_ne!(one.hash(), State { rev: 2, ..one.clone() }.hash());
    }

    #[test]
    fn places_that_lie_in_each_other_are_not_disjoint() {
        let set = |id: &str, path: &str| touched(&[json!({"op": "set", "id": id, "path": path, "value": 1})]);
        assert!(is_disjoint(&set("a", "/x"), &set("a", "/y")));
        assert!(is_disjoint(&set("a", "/x"), &set("b", "/x")));
        assert!(is_disjoint(&set("a", "/x"), &set("a", "/xy")));
        assert!(!is_disjoint(&set("a", "/x"), &set("a", "/x/y")));
        assert!(!is_disjoint(&set("a", "/x/y"), &set("a", "/x")));
        assert!(!is_disjoint(&set("a", "/x"), &touched(&[json!({"op": "delete", "id": "a"})])));
    }
}
