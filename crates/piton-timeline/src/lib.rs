//! Timepoints, frontiers, the counters of lanes and the happens-before clock.
