//! What a call leaves for the page: bytes, or an error as JSON.

use arenagrad::error::{Error, Kind, Location};
use serde_json::{Value, json};

/// The result of a call: a number for the page.
pub type Call = Result<u32, Error>;

/// An error of the page's call.
#[cold]
pub fn bad_call(kind: Kind, message: impl Into<String>) -> Error {
    Error::new(kind, message)
}

/// The error as `{"kind", "message", "location"}`; the location is `null` or a text.
pub fn error_json(e: &Error) -> Value {
    let at = match &e.location {
        Location::Source(file, line) => Value::from(format!("{file}:{line}")),
        Location::Text(line, col) => Value::from(format!("{line}:{col}")),
        Location::Node(node) => Value::from(node.as_str()),
        _ => Value::Null,
    };
    json!({ "kind": format!("{:?}", e.kind), "message": e.message, "location": at })
}

/// The request, as JSON of type `T`. An error if it is none.
pub fn request_json<T: serde::de::DeserializeOwned>(what: &str, request: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(request).map_err(|e| {
        let text = e.to_string();
        // The page made the text: where in it the fault is tells its caller nothing.
        let text = text.split(" at line ").next().unwrap_or_default();
        bad_call(Kind::Syntax, format!("{what}: {text}"))
    })
}
