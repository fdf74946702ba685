//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.
