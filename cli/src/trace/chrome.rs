//! Chrome's trace format: complete events ("X") with times in microseconds, metadata events ("M") for thread names.
//!
//! Invariant: the events of a thread are in the order in which they ran.

use arenagrad::session::{Event, Trace, WAIT};
use serde::Serialize;
use serde_json::json;

/// A complete event. The names are the format's.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: usize,
    args: Args<'a>,
}

/// The details of an event.
#[derive(Serialize, Default)]
struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    shapes: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    flops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

/// Event `e` of thread `tid`.
fn chrome_row<'a>(t: &'a Trace, tid: usize, e: &Event) -> Row<'a> {
    let us = |ns: u64| ns as f64 / 1e3;
    let (name, cat, args) = match t.calls.get(e.instr as usize) {
        Some(c) if e.instr != WAIT => {
            let (flops, bytes) = (Some(c.flops), Some(c.bytes));
            let args = Args {
                instruction: Some(e.instr),
                node: &c.name,
                shapes: &c.types,
                flops,
                bytes,
                place: c.location.origin(),
            };
            (c.op, "kernel", args)
        }
        _ => ("wait", "wait", Args::default()),
    };
    Row { name, cat, ph: "X", ts: us(e.from), dur: us(e.to - e.from), pid: 1, tid, args }
}

/// The file's bytes. `title` names the process in the viewer.
pub fn encode_chrome_trace(title: &str, t: &Trace) -> serde_json::Result<Vec<u8>> {
    let mut events = vec![serde_json::to_value(
        json!({ "name": "process_name", "ph": "M", "pid": 1, "args": { "name": format!("arenagrad {title}") } }),
    )?];
    for (tid, thread) in t.threads.iter().enumerate() {
        let name = json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": { "name": format!("thread {tid}") } });
        events.push(name);
        for e in thread {
            events.push(serde_json::to_value(chrome_row(t, tid, e))?);
        }
    }
    let other = json!({ "step_us": t.nanos as f64 / 1e3, "dropped_events": t.dropped });
    serde_json::to_vec(&json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": other }))
}
