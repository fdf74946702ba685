//! Chrome's trace format: complete events ("X") with times in microseconds, metadata events ("M") for thread names.
//! chrome://tracing and ui.perfetto.dev read it.
//!
//! Invariant: the events of a thread are in the order in which they ran.

use super::tracer::{Event, Trace, WAIT};
use crate::error::Result;
use std::fmt::Write as _;
use std::io::Write;

impl Trace {
    /// Writes the step for chrome://tracing or ui.perfetto.dev, as JSON in one write for each event. `title` names the
    /// process in the viewer. Errors: those of `out`.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let x = g.input("x", [4], DType::F32);
    /// let mut p = Session::new().compile_traced(&g.finish([x.exp().named("y")])?)?;
    /// p.values_mut::<f32>("x")?.fill(1.0);
    /// let trace = p.step_traced()?;
    /// let mut file = Vec::new();
    /// trace.write_chrome(&mut file, "my step")?;
    /// assert!(file.starts_with(b"{\"traceEvents\":["));
    /// println!("{trace}"); // time by op
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_chrome(&self, mut out: impl Write, title: &str) -> Result<()> {
        let process = chrome_quoted(&format!("arenagrad {title}"));
        write!(
            out,
            "{{\"traceEvents\":[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"name\":{process}}}}}"
        )?;
        for (tid, thread) in self.threads.iter().enumerate() {
            let head = "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1";
            write!(out, ",\n{head},\"tid\":{tid},\"args\":{{\"name\":\"thread {tid}\"}}}}")?;
            for e in thread {
                out.write_all(self.event(tid, e).as_bytes())?;
            }
        }
        let (us, dropped) = (exact_micros(self.nanos), self.dropped);
        write!(
            out,
            "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"step_us\":{us},\"dropped_events\":{dropped}}}}}\n"
        )?;
        Ok(out.flush()?)
    }

    /// Event `e` of thread `tid`, after a comma.
    fn event(&self, tid: usize, e: &Event) -> String {
        let (from, long) = (exact_micros(e.from), exact_micros(e.to - e.from));
        let head = |name: &str, kind: &str| {
            format!(
                ",\n{{\"name\":{},\"cat\":\"{kind}\",\"ph\":\"X\",\"ts\":{from},\"dur\":{long},\"pid\":1,\"tid\":{tid}",
                chrome_quoted(name)
            )
        };
        let Some(c) = self.calls.get(e.instr as usize).filter(|_| e.instr != WAIT) else {
            return head("wait", "wait") + ",\"args\":{}}";
        };
        let mut s = head(c.op, "kernel");
        let _ = write!(s, ",\"args\":{{\"instruction\":{},\"flops\":{},\"bytes\":{}", e.instr, c.flops, c.bytes);
        let texts = [("node", Some(c.name.clone())), ("shapes", Some(c.types.clone())), ("place", c.location.origin())];
        for (key, text) in texts {
            if let Some(text) = text.filter(|t| !t.is_empty()) {
                let _ = write!(s, ",\"{key}\":{}", chrome_quoted(&text));
            }
        }
        s + "}}"
    }
}

/// Nanoseconds as microseconds, exactly.
fn exact_micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// `text` as a JSON string.
fn chrome_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Location;
    use crate::session::Call;

    #[test]
    fn strings_and_times_are_json() {
        assert_eq!(chrome_quoted("a\"b\\c\n\u{7f}é"), "\"a\\\"b\\\\c\\u000a\\u007fé\"");
        assert_eq!([0, 7, 1_000, 12_345_678].map(exact_micros), ["0.000", "0.007", "1.000", "12345.678"]);
    }

    const JSON: &str = r#"{"traceEvents":[
{"name":"process_name","ph":"M","pid":1,"args":{"name":"arenagrad my \"step\""}},
{"name":"thread_name","ph":"M","pid":1,"tid":0,"args":{"name":"thread 0"}},
{"name":"matmul","cat":"kernel","ph":"X","ts":0.000,"dur":0.040,"pid":1,"tid":0,"args":{"instruction":0,"flops":100,"bytes":8,"node":"h","shapes":"f32[2] -> f32[3]","place":"a.rs:3"}},
{"name":"wait","cat":"wait","ph":"X","ts":0.040,"dur":0.010,"pid":1,"tid":0,"args":{}},
{"name":"add","cat":"kernel","ph":"X","ts":0.050,"dur":1.950,"pid":1,"tid":0,"args":{"instruction":1,"flops":10,"bytes":16}},
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"thread 1"}},
{"name":"matmul","cat":"kernel","ph":"X","ts":0.005,"dur":0.045,"pid":1,"tid":1,"args":{"instruction":0,"flops":100,"bytes":8,"node":"h","shapes":"f32[2] -> f32[3]","place":"a.rs:3"}}
],"displayTimeUnit":"ns","otherData":{"step_us":1234.567,"dropped_events":3}}
"#;

    #[test]
    fn a_step_is_events_by_thread() {
        let call = |op, [name, types]: [&str; 2], flops, bytes, location| Call {
            op,
            name: name.to_string(),
            types: types.to_string(),
            flops,
            bytes,
            modelled: 2000,
            units: 2,
            location,
        };
        let at = |instr, from, to| Event { instr, from, to };
        let source = Location::Source("a.rs".to_string(), 3);
        let product = call("matmul", ["h", "f32[2] -> f32[3]"], 100, 8, source);
        let trace = Trace {
            calls: [product, call("add", ["", ""], 10, 16, Location::Nowhere)].into(),
            threads: vec![vec![at(0, 0, 40), at(WAIT, 40, 50), at(1, 50, 2000)], vec![at(0, 5, 50)]],
            nanos: 1_234_567,
            dropped: 3,
        };
        let mut file = Vec::new();
        trace.write_chrome(&mut file, "my \"step\"").unwrap();
        assert_eq!(String::from_utf8(file).unwrap(), JSON);
    }
}
