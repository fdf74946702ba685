//! Recording a step: for each thread, when it ran which instruction, and when it waited for the others.
//!
//! Invariants: recording allocates nothing, and a step that is not recorded reads no clock. The recorder is an observer
//! that wraps the [`StepObserver`] of a plain step, and plain steps are compiled without it. Used by
//! [`exec`](super::exec) and [`team`](super::team).

use super::link::{Linked, LinkedBody, Segment};
use super::observer::StepObserver;
use crate::kernels::abi::ArenaPtr;
use std::ops::Range;
use std::time::Instant;

/// Most events that are kept of one thread. A step of a long loop has more; the rest are counted only.
pub const MOST: usize = 1 << 20;

/// A span of one thread's time, in nanoseconds since the step began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instruction, as an index into [`Exec::nodes`](super::exec::Exec::nodes); [`WAIT`] for a barrier.
    pub instr: u32,
    /// When it began.
    pub from: u64,
    /// When it ended.
    pub to: u64,
}

/// [`Event::instr`] of a wait for the other threads at a barrier.
pub const WAIT: u32 = u32::MAX;

/// The events of one thread, in space that is allocated before the step.
#[derive(Clone, Debug)]
pub struct Track {
    origin: Instant,
    events: Vec<Event>,
    capacity: usize,
    dropped: u64,
}

impl Linked {
    /// Number of events of a recorded step of `thread`.
    pub fn track_events(&self, thread: usize) -> usize {
        self.segment_track_events(0, thread)
    }

    fn segment_track_events(&self, segment: usize, thread: usize) -> usize {
        let l: &Segment = &self.segments[segment];
        let body = |t: &LinkedBody| {
            let each =
                self.segment_track_events(t.segment as usize, thread).saturating_add(usize::from(t.team) * t.barriers);
            // One barrier more where the flag is read before the first iteration.
            each.saturating_mul(t.length).saturating_add(usize::from(t.team))
        };
        let of = |instr: u32| self.calls_of(&l.calls[instr as usize]).iter().map(body).max().unwrap_or(1);
        let each = l.tapes.thread(thread).iter().map(|e| if e.barrier { 1 } else { of(e.instr) });
        each.fold(0, usize::saturating_add)
    }
}

impl Track {
    /// Space for `events` events, at most [`MOST`].
    pub fn new(events: usize) -> Track {
        let capacity = events.min(MOST);
        Track { origin: Instant::now(), events: Vec::with_capacity(capacity), capacity, dropped: 0 }
    }

    /// Clears the track; times count from `origin`.
    pub fn begin(&mut self, origin: Instant) {
        self.events.clear();
        (self.origin, self.dropped) = (origin, 0);
    }

    /// The events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Number of events for which there was no space.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn push(&mut self, instr: u32, from: u64) {
        if self.events.len() < self.capacity {
            let to = self.now();
            self.events.push(Event { instr, from, to });
        } else {
            self.dropped += 1;
        }
    }
}

/// The observer of a recorded step.
pub(super) struct TrackObserver<'a, W> {
    inner: W,
    track: &'a mut Track,
    since: u64,
}

impl<'a, W> TrackObserver<'a, W> {
    /// Wraps `inner`; events go to `track`.
    pub fn new(inner: W, track: &'a mut Track) -> Self {
        TrackObserver { inner, track, since: 0 }
    }
}

impl<W: StepObserver> StepObserver for TrackObserver<'_, W> {
    fn arena(&mut self) -> ArenaPtr {
        self.inner.arena()
    }

    fn goes_on(&mut self, time: usize) -> bool {
        let on = self.inner.goes_on(time);
        self.since = self.track.now();
        on
    }

    fn barrier(&mut self, time: usize) -> bool {
        let from = self.track.now();
        let on = self.inner.barrier(time);
        self.track.push(WAIT, from);
        on
    }

    fn dead(&mut self, bytes: &[Range<usize>]) {
        self.inner.dead(bytes);
    }

    fn done(&mut self, segment: &Segment, i: usize) {
        // A loop has the events of its body.
        if segment.calls[i].runs_kernel() {
            self.track.push((segment.first + i) as u32, self.since);
        }
        self.inner.done(segment, i);
    }
}
