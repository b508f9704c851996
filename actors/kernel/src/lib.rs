//! Pure: run state, decide, evolve, owed, and the driver without I/O.
