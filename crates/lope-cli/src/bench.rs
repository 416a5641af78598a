//! What `lope bench` measures: durable runs of several shapes and messages, on each store, beside what that store could do at best in the
//! same minute. Nothing here judges; timings swing, CPU time hardly does.

pub(crate) mod figure;
pub(crate) mod footprint;
pub(crate) mod idle;
pub(crate) mod mailbox;
pub(crate) mod place;
pub(crate) mod python;
pub(crate) mod raw;
pub(crate) mod shapes;
pub(crate) mod work;
