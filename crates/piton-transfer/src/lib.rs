//! Carries copies between devices out, along the routes the topology chooses.
