//! Groups of threads: what each primitive moves, and that no rank waits for one that has ended.

use super::*;

/// What `f` gives on each of `n` ranks.
fn ranks<T: Send>(n: usize, f: impl Fn(LocalComm) -> T + Sync) -> Vec<T> {
    std::thread::scope(|s| {
        let all: Vec<_> = LocalComm::group(n).into_iter().map(|c| s.spawn(|| f(c))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn each_primitive_moves_what_it_says() {
    let all = ranks(3, |c| {
        let r = c.rank() as u8;
        let (mut to, mut from_all, mut one) = ([0; 6], [0; 6], [r, r]);
        for _ in 0..50 {
            c.all_to_all(&[10 * r, 1, 10 * r + 1, 1, 10 * r + 2, 1], &mut to).unwrap();
            c.all_gather(&[r, 7], &mut from_all).unwrap();
            one = [r, r];
            c.broadcast(2, &mut one).unwrap();
            c.barrier().unwrap();
        }
        (to, from_all, one)
    });
    for (r, (to, from_all, one)) in (0u8..).zip(all) {
        assert_eq!((to, from_all, one), ([r, 1, 10 + r, 1, 20 + r, 1], [0, 7, 1, 7, 2, 7], [2, 2]));
    }
}

#[test]
fn a_rank_that_ends_ends_the_calls_of_the_others() {
    let why = ranks(3, |c| {
        if c.rank() == 1 {
            return String::new();
        }
        c.all_gather(&[0], &mut [0; 3]).and_then(|()| c.barrier()).unwrap_err().message
    });
    assert_eq!(why, ["rank 1 of 3 ended: it left the group", "", "rank 1 of 3 ended: it left the group"]);
    let why = std::thread::scope(|s| {
        let mut group = LocalComm::group(2).into_iter();
        let (a, b) = (group.next().unwrap(), group.next().unwrap());
        let waits = s.spawn(move || a.barrier().unwrap_err().message);
        let aborts = s.spawn(move || b.abort("the disk is full"));
        assert!(aborts.join().is_err());
        waits.join().unwrap()
    });
    assert_eq!(why, "rank 1 of 2 ended: the disk is full");
}

#[test]
fn wrong_lengths_are_errors() {
    let [c] = &LocalComm::group(1)[..] else { unreachable!() };
    assert!(c.all_to_all(&[1], &mut [0; 2]).is_err());
    assert!(c.all_gather(&[1], &mut [0; 2]).is_err());
    assert_eq!(c.broadcast(1, &mut [0]).unwrap_err().message, "broadcast: there is no rank 1; ranks go from 0 to 0");
    let why = ranks(2, |c| {
        let own = vec![0; 2 * (c.rank() + 1)];
        c.all_to_all(&own, &mut own.clone()).unwrap_err().message
    });
    assert_eq!(why, ["rank 1 sends 4 bytes, 2 are received", "rank 0 sends 2 bytes, 4 are received"]);
}
