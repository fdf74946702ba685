//! A panic's payload whose drop panics.

/// Its drop panics with another one, `left` times.
pub struct Bomb {
    pub left: u32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(left) = self.left.checked_sub(1) {
            std::panic::resume_unwind(Box::new(Bomb { left }));
        }
    }
}
