//! What is read of PTX: which kernels a module declares, and how large their parameters are.

use piton_standin::kernels::Declared;

/// The kernels that a module declares.
///
/// # Errors
/// What a person would be told: this is no PTX, or none that is read here.
pub fn declared(ptx: &str) -> Result<Vec<Declared>, &'static str> {
    if !ptx.contains(".version") || !ptx.contains(".target") {
        return Err("ptxas fatal : missing .version or .target directive");
    }
    ptx.split(".entry").skip(1).map(kernel).collect()
}

/// The kernel whose declaration stands at the start of `text`.
fn kernel(text: &str) -> Result<Declared, &'static str> {
    let (name, rest) = text.split_once('(').ok_or("ptxas error : no parameters")?;
    let (list, _) = rest.split_once(')').ok_or("ptxas error : unclosed list")?;
    let parameters = list.split(',').map(str::trim).filter(|one| !one.is_empty());
    Ok(Declared {
        name: name.trim().to_owned(),
        parameters: parameters.map(bytes).collect::<Result<_, _>>()?,
    })
}

/// The bytes of a parameter such as `.param .u64 name` or `.param .align 4 .b8 name[32]`.
fn bytes(parameter: &str) -> Result<usize, &'static str> {
    let length = parameter.split_once('[').map_or(Some(1), |(_, length)| {
        length.trim_end_matches(']').parse().ok()
    });
    let words = parameter.split_whitespace();
    let width = words
        .filter_map(|word| match word {
            ".u64" | ".b64" | ".s64" | ".f64" => Some(8),
            ".u32" | ".b32" | ".s32" | ".f32" => Some(4),
            ".u16" | ".b16" | ".s16" => Some(2),
            ".u8" | ".b8" | ".s8" => Some(1),
            _ => None,
        })
        .next();
    let (width, length) = width.zip(length).ok_or("ptxas error : odd parameter")?;
    Ok(width * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_with_the_sizes_of_their_parameters() {
        let ptx = ".version 6.0\n.target sm_70\n.visible .entry a(\n .param .u64 p,\n .param .align 4 .b8 q[32]\n)\n{ ret; }\
                   .visible .entry b() { ret; }";
        let kernel = |name: &str, parameters: &[usize]| Declared {
            name: name.to_owned(),
            parameters: parameters.to_vec(),
        };
        let expected = vec![kernel("a", &[8, 32]), kernel("b", &[])];
        assert_eq!(declared(ptx), Ok(expected));
        assert!(declared("not at all").is_err());
        assert!(declared(".version 6.0 .target sm_70 .entry k(.param .x p)").is_err());
    }
}
