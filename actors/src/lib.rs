//! The ractor shells and the ports they act through: models, tools, clock.
