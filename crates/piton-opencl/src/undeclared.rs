//! Source and binaries that nobody has declared: what their kernels take is asked of the driver.
//!
//! The driver knows of each argument where it lives, what its type is called and whether it is `const`
//! (`-cl-kernel-arg-info`); how large a struct is it does not tell, but some refuse a value of another size (Intel's; pocl takes
//! any). So sizes of types that OpenCL has names for are known, and others are tried. A kernel with an argument whose size is
//! not known so, or that the contract has no word for (an image, memory of a work group), is left out: it has to be declared.
//!
//! Nobody vouches for such kernels: launches on the contract's queues are unsafe, and their callers do. Binaries are taken in the
//! form that [`OpenClDriver::binary`](crate::OpenClDriver::binary) gives, since drivers die of others; and SPIR-V, where the
//! device says that it takes it: what that takes is read from it ([`spir_v`]).

use crate::{
    binaries,
    device::OpenClDevice,
    ffi::{ArgumentPlace, Called, Program, RawKernel},
    spir_v,
    status::Status,
};
use piton_driver::{Access, ModuleImage, Parameter, Signature};
use piton_native::kernels::{DeclaredModule, UNDECLARED};

type Loaded = Result<(Program, DeclaredModule<()>), (Status, String)>;

/// A module of source or a binary; nothing where the format is not read.
pub(crate) fn load(device: &OpenClDevice, image: ModuleImage<'_>) -> Option<Loaded> {
    let program = match image {
        ModuleImage::Source(source) => binaries::program(device, source),
        ModuleImage::Binary(binary) if binary.starts_with(&spir_v::MAGIC) => {
            return intermediate(device, binary);
        }
        ModuleImage::Binary(binary) => binaries::load(device, binary),
        _ => return None,
    };
    Some(program.and_then(|program| {
        let module = declared(device, &program);
        let module = module.map_err(|status| (status, String::new()))?;
        Ok((program, module))
    }))
}

/// A module of SPIR-V, which says itself what its kernels take; nothing where the device takes none.
fn intermediate(device: &OpenClDevice, words: &[u8]) -> Option<Loaded> {
    if !device.handle.takes_intermediate() {
        return None;
    }
    let Some(kernels) = spir_v::kernels(words) else {
        return Some(Err((Status::INVALID_BINARY, String::new())));
    };
    let program = Program::of_intermediate(&device.shared.context, words)?;
    let program = program.map_err(|status| (status, String::new()));
    Some(program.and_then(|program| {
        program.build(device.handle)?;
        let mut module = DeclaredModule::new(UNDECLARED, &[]);
        for (name, signature) in kernels {
            module.declare(&name, signature, ());
        }
        Ok((program, module))
    }))
}

/// What the driver knows of the kernels of a program.
fn declared(device: &OpenClDevice, program: &Program) -> Called<DeclaredModule<()>> {
    let mut module = DeclaredModule::new(UNDECLARED, &[]);
    let most = device.info.limits.argument_bytes;
    for name in program.kernel_names()? {
        if let Some(mut kernel) = program.kernel(&name)?
            && let Some(signature) = signature(&mut kernel, most)?
        {
            module.declare(&name, signature, ());
        }
    }
    Ok(module)
}

/// What a kernel takes; nothing where the contract has no word for it, or the driver does not say.
fn signature(kernel: &mut RawKernel, most: u32) -> Called<Option<Signature>> {
    let mut parameters = Vec::new();
    for index in 0..kernel.arguments()? {
        let parameter = match kernel.place(index) {
            Some(ArgumentPlace::Memory) => Some(buffer(kernel, index)),
            Some(ArgumentPlace::Value) => value(kernel, index, most),
            Some(ArgumentPlace::Other) | None => None,
        };
        let Some(parameter) = parameter else {
            return Ok(None);
        };
        parameters.push(parameter);
    }
    Ok(Some(Signature::new(parameters)))
}

fn buffer(kernel: &RawKernel, index: u32) -> Parameter {
    let name = kernel.type_name(index).unwrap_or_default();
    let element = name.trim_end_matches(['*', ' ']);
    Parameter::Buffer {
        access: if kernel.is_constant(index) {
            Access::Read
        } else {
            Access::Write
        },
        element_bytes: size_of_type(element).unwrap_or(1),
    }
}

/// A value of a type that OpenCL names, or of the one size that the driver takes.
fn value(kernel: &mut RawKernel, index: u32, most: u32) -> Option<Parameter> {
    let named = kernel.type_name(index);
    let named = named.and_then(|name| size_of_type(&name));
    let bytes = named.or_else(|| only_size(kernel, index, most))?;
    Some(Parameter::Value {
        bytes,
        // Where it lies in the packed arguments is ours to say; sizes are multiples of alignments.
        alignment: 1 << bytes.trailing_zeros().min(4),
    })
}

/// The size that the driver takes an argument in; nothing where it takes several, as those do that do not know.
fn only_size(kernel: &mut RawKernel, index: u32, most: u32) -> Option<u32> {
    let zeroes = vec![0; most as usize];
    let mut sizes = (1..=most).filter(|size| {
        // Nothing is launched with these.
        let value = zeroes.get(..*size as usize);
        value.is_some_and(|value| kernel.set_value(index, value).is_ok())
    });
    let first = sizes.next();
    first.filter(|_| sizes.next().is_none())
}

/// Bytes of a scalar or vector of OpenCL C, by its name.
fn size_of_type(name: &str) -> Option<u32> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let scalar = name.strip_suffix(digits).unwrap_or(name);
    let bytes = match scalar {
        "char" | "uchar" => 1,
        "short" | "ushort" | "half" => 2,
        "int" | "uint" | "float" => 4,
        "long" | "ulong" | "double" => 8,
        _ => return None,
    };
    // A vector of three takes the room of four.
    match digits {
        "" => Some(bytes),
        "2" => Some(2 * bytes),
        "3" | "4" => Some(4 * bytes),
        "8" => Some(8 * bytes),
        "16" => Some(16 * bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_the_language_names_have_known_sizes() {
        let sizes = ["uchar", "half", "float", "ulong", "float3", "int16"].map(size_of_type);
        assert_eq!(sizes.map(Option::unwrap), [1, 2, 4, 8, 16, 64]);
        for unknown in ["Tiling", "float5", "struct pair2", "", "3"] {
            assert_eq!(size_of_type(unknown), None, "{unknown}");
        }
    }
}
