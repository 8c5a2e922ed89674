//! A copy between devices of which every byte is known.

use piton::{DeviceBuffer, Runtime, Stream};

/// A copy between two devices, and what is to arrive.
pub(crate) struct Copy {
    pub(crate) from: Stream,
    pub(crate) to: Stream,
    pub(crate) source: DeviceBuffer<u8>,
    pub(crate) target: DeviceBuffer<u8>,
    bytes: Vec<u8>,
}

fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let word = |at: usize| (at as u64 / 8 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..bytes)
        .map(|at| word(at).to_le_bytes()[at % 8])
        .collect()
}

impl Copy {
    pub(crate) fn new(runtime: &Runtime, from: u32, to: u32, bytes: usize, seed: u64) -> Self {
        let stream = |device, label| runtime.device(device).unwrap().stream(label).unwrap();
        let (from, to) = (stream(from, "from"), stream(to, "to"));
        let mut source = from.allocate::<u8>(bytes as u64).unwrap();
        let bytes = content(bytes, seed);
        from.write(&mut source, &bytes).unwrap();
        Self {
            target: to.allocate_zeroed::<u8>(bytes.len() as u64).unwrap(),
            source,
            from,
            to,
            bytes,
        }
    }

    pub(crate) fn start(&mut self) {
        self.to.copy_peer(&self.source, &mut self.target).unwrap();
    }

    pub(crate) fn assert_arrived(&mut self) {
        // The source may be written again at once: the copy is in order.
        self.from.fill(&mut self.source, 0).unwrap();
        assert!(
            self.to.read(&self.target).unwrap() == self.bytes,
            "bytes are wrong"
        );
    }
}
