//! Loading a module and finding its kernel, the first time and again.

use crate::{
    device::{MODULE, Rig, must},
    measure::{Effort, Samples, sample},
    session::Session,
};
use piton_driver::ModuleImage;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    session.measure("load a module, find a kernel", None, |rig| {
        load(rig, effort)
    });
}

fn load(rig: &Rig, effort: Effort) -> Samples {
    sample(effort, 16, |samples| {
        samples.time(|| {
            let module = must(rig.device.kernels().load(ModuleImage::Registered(MODULE)));
            must(module.kernel("empty"))
        });
    })
}
