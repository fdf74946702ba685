//! Recording a step: for each thread, when it ran which instruction, and when it waited for the others.
//!
//! Invariants: recording allocates nothing, and a step that is not recorded reads no clock. The recorder is an observer
//! that wraps the [`StepObserver`] of a plain step, and plain steps are compiled without it. Used by
//! [`exec`](super::exec) and [`team`](super::team).

use super::link::{Linked, LinkedBody, Segment};
use super::observer::{END, Meeting, StepObserver};
use crate::clock::Instant;
use crate::kernels::abi::ArenaPtr;
use std::ops::Range;

/// Most events that are kept of one thread. A step of a long loop has more; the rest are counted only.
pub const MOST: usize = 1 << 20;

/// A span of one thread's time, in nanoseconds since the step began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

    fn owns(&self) -> bool {
        self.inner.owns()
    }

    fn barrier(&mut self, time: usize) -> Meeting {
        let from = self.track.now();
        let met = self.inner.barrier(time);
        if time != END {
            self.track.push(WAIT, from);
        }
        met
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::instructions::{BufKind, Instr};
    use crate::sched::link::link;
    use crate::sched::modelled_time::InstrTime;
    use crate::sched::planned_body::{FlagBound, LoopExit, PlannedBody};
    use crate::sched::share::share_tapes_above;
    use crate::sched::tests::hand::{CALL, HandPlan, hand_body};

    /// A body of `n` instructions, which all threads run if `team`.
    fn body(n: usize, length: usize, team: bool) -> PlannedBody {
        let mut p = HandPlan::new();
        let time = InstrTime { total: u64::from(team), ..InstrTime::default() };
        (0..n).for_each(|_| p.call(&Instr { units: 2, time, ..CALL }));
        hand_body(p.plan(2), length)
    }

    /// Events of both threads for an instruction, `bodies`, and an instruction that reads what the first wrote.
    fn events(bodies: Vec<PlannedBody>) -> [usize; 2] {
        let mut p = HandPlan::new();
        let x = p.bytes(0, 64, BufKind::Activation);
        let all = Instr { units: 2, time: InstrTime { total: 1, ..InstrTime::default() }, ..CALL };
        p.call(&Instr { writes: &[x], ..all });
        p.call_bodies(bodies, &CALL);
        p.call(&Instr { reads: &[x], ..all });
        let plan = p.plan(2);
        let linked = link(&plan, share_tapes_above(&plan, 1)).unwrap();
        [0, 1].map(|t| linked.track_events(t))
    }

    #[test]
    fn a_loop_has_the_events_of_all_its_iterations() {
        // Thread 0 runs the loop, and both wait behind it.
        assert_eq!(events(vec![body(2, 10, false)]), [1 + 2 * 10 + 2, 3]);
        // Both wait before the loop and behind each iteration. There is space for one wait more.
        assert_eq!(events(vec![body(2, 10, true)]), [1 + 1 + 3 * 10 + 1 + 1; 2]);
        let exit = Some(LoopExit::Flag(FlagBound::Ends));
        assert_eq!(events(vec![PlannedBody { exit, ..body(2, 10, true) }]), [1 + 1 + 4 * 10 + 1 + 1; 2]);
        // Of two branches one runs.
        assert_eq!(events(vec![body(2, 1, false), body(5, 1, false)]), [1 + 5 + 2, 3]);
        assert_eq!(events(vec![body(5, 1, false), body(2, 1, false)]), [1 + 5 + 2, 3]);
    }

    #[test]
    fn events_without_space_are_counted() {
        let mut track = Track::new(2);
        assert_eq!(track.dropped(), 0);
        let origin = Instant::now();
        track.begin(origin);
        (0..4).for_each(|i| track.push(i, 7));
        let kept: Vec<(u32, u64)> = track.events().iter().map(|e| (e.instr, e.from)).collect();
        assert_eq!((kept, track.dropped()), (vec![(0, 7), (1, 7)], 2));
        track.begin(origin);
        assert_eq!((track.events(), track.dropped()), (&[][..], 0));
        // The clock runs from the origin.
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(track.now() >= 1_000_000);
        assert_eq!(Track::new(MOST + 1).capacity, MOST);
    }
}
