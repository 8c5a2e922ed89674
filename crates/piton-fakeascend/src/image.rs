//! Binaries as the stand-in has them: a line that says what it is, then one for each kernel, with the bytes of each parameter.

use piton_standin::kernels::Declared;

/// What every image begins with.
const MAGIC: &str = "kernels of the stand-in";

/// An image with the suite's kernels.
pub const IMAGE: &str = "kernels of the stand-in
conformance_add 8 4
conformance_copy 8 8
conformance_trap 8 4
";

/// The kernels that an image declares.
///
/// # Errors
/// What a person would be told: this is no image.
pub fn read(image: &[u8]) -> Result<Vec<Declared>, &'static str> {
    let text = std::str::from_utf8(image).map_err(|_| "the binary is not for this device")?;
    let mut lines = text.lines();
    if lines.next() != Some(MAGIC) {
        return Err("the binary is not for this device");
    }
    lines.map(kernel).collect()
}

/// The kernel of a line.
fn kernel(line: &str) -> Result<Declared, &'static str> {
    let mut words = line.split_whitespace();
    let name = words.next().ok_or("a kernel has no name")?;
    let bytes = words.map(|word| word.parse().map_err(|_| "a parameter has no size"));
    Ok(Declared {
        name: name.to_owned(),
        parameters: bytes.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_with_the_sizes_of_their_parameters() {
        let kernels = read(IMAGE.as_bytes()).unwrap_or_default();
        let names: Vec<_> = kernels.iter().map(|kernel| &*kernel.name).collect();
        assert_eq!(
            names,
            ["conformance_add", "conformance_copy", "conformance_trap"]
        );
        assert_eq!(kernels[0].parameters, [8, 4]);
        assert!(read(b"not at all").is_err());
        assert!(read(b"kernels of the stand-in\nk x").is_err());
    }
}
