//! A model of the machine: devices, links, distances, routes.
