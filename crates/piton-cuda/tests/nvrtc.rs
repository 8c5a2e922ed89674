//! Kernels in CUDA C: on the stand-in's compiler, without one, and on NVIDIA's, which needs no device.

#![expect(unsafe_code, reason = "vouches for kernels written here")]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_cuda::{CompilerError, CudaBlock, CudaConfig, CudaDriver, CudaModule};
use piton_driver::{ErrorKind, VendorCode};
use piton_fakecuda::library;
use piton_standin::trial::{MODULE, Own, device, end, kernel, launch, queue, takes};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = "
extern \"C\" __global__ void conformance_add(unsigned int *values, unsigned int value) {
    for (unsigned int i = threadIdx.x; i < 256; i += blockDim.x) values[blockIdx.x * 256 + i] += value;
}
";

const PTX: &str = "
.version 6.0
.target sm_50
.visible .entry conformance_add(.param .u64 values, .param .u32 value) { ret; }
";

fn own() -> Own {
    Own::copy_of(&library::stand_in().unwrap(), "libcuda.so.1", "fakecuda")
}

fn open(own: &Own, compiler: &Path) -> CudaDriver {
    CudaDriver::open(CudaConfig {
        library: Some(own.path().into()),
        compiler: Some(compiler.into()),
        ..CudaConfig::default()
    })
    .unwrap()
}

fn module(source: &str) -> CudaModule {
    // SAFETY: the kernel keeps to its block.
    let module = unsafe { CudaModule::from_source(MODULE, source, &["--fmad=false"]) };
    module.with("conformance_add", takes(), CudaBlock::linear(64))
}

fn with_ptx(source: &str) -> CudaModule {
    // SAFETY: the stand-in's kernel keeps to its block.
    unsafe { module(source).or_ptx(PTX) }
}

fn assert_runs(driver: &CudaDriver) {
    let device = device(driver, 0);
    let queue = queue(&*device);
    launch(&*device, &queue, "conformance_add");
    end(&*queue);
    assert_eq!(queue.failure(), None);
}

#[test]
fn cuda_c_runs_where_there_is_a_compiler() {
    let own = own();
    let driver = open(&own, own.path());
    assert_eq!(driver.compiler(), Ok((12, 8)));
    driver.register(module(SOURCE));
    assert_runs(&driver);
}

#[test]
fn cuda_c_that_does_not_compile_says_what_the_compiler_said() {
    let own = own();
    let driver = open(&own, own.path());
    // That there is PTX too hides no mistake.
    driver.register(with_ptx("#error no"));
    let error = kernel(&*device(&driver, 0), "conformance_add").unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownModule);
    assert_eq!(error.code, Some(VendorCode(300)));
    assert!(driver.build_log(MODULE).unwrap().contains("#error"));
    own.fail("nvrtcCompileProgram", 5);
    driver.register(module(SOURCE));
    kernel(&*device(&driver, 0), "conformance_add").unwrap_err();
    let log = driver.build_log(MODULE).unwrap();
    assert!(log.contains("NVRTC_ERROR_INVALID_OPTION (5)"), "{log}");
}

#[test]
fn without_a_compiler_there_is_the_ptx_or_a_reason() {
    let own = own();
    let name = "no/such/libnvrtc.so";
    let driver = open(&own, Path::new(name));
    let CompilerError::NoLibrary { searched } = driver.compiler().unwrap_err() else {
        panic!("another reason");
    };
    assert_eq!(searched[0].name, name);
    driver.register(module(SOURCE));
    let error = kernel(&*device(&driver, 0), "conformance_add").unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownModule);
    assert!(driver.build_log(MODULE).unwrap().contains(name));
    driver.register(with_ptx(SOURCE));
    assert_runs(&driver);
}

#[test]
fn ptx_that_the_driver_is_too_old_for_gives_way_to_what_came_along() {
    let own = own();
    let driver = open(&own, own.path());
    driver.register(with_ptx(SOURCE));
    own.fail("cuModuleLoadDataEx", 222);
    assert_runs(&driver);
    driver.register(module(SOURCE));
    own.fail("cuModuleLoadDataEx", 222);
    let error = kernel(&*device(&driver, 0), "conformance_add").unwrap_err();
    assert_eq!(error.code, Some(VendorCode(222)));
}

/// NVIDIA's compiler: the file that `PITON_NVRTC` names, or that of Python's packages.
fn nvrtc() -> Option<PathBuf> {
    let of_python = || {
        let find = "import nvidia.cuda_nvrtc as m; print(list(m.__path__)[0], end='')";
        let output = Command::new("python3").args(["-c", find]).output().ok()?;
        let folder = String::from_utf8(output.stdout).ok()?;
        Some(Path::new(&folder).join("lib/libnvrtc.so.12"))
    };
    let named = env::var_os("PITON_NVRTC").map(PathBuf::from);
    named.or_else(of_python).filter(|path| path.is_file())
}

#[test]
fn the_demonstrations_kernels_are_built_by_nvidias_compiler_where_it_is_installed() {
    let Some(path) = nvrtc() else {
        println!("skipped: no NVRTC: pip install nvidia-cuda-nvrtc-cu12, or PITON_NVRTC=FILE");
        return;
    };
    let own = own();
    let driver = open(&own, &path);
    let (major, _) = driver.compiler().unwrap();
    assert!(major >= 11, "{major}");
    // SAFETY: nothing is launched.
    let training = unsafe {
        CudaModule::from_source(MODULE, piton_training::CUDA_C, piton_training::CUDA_OPTIONS)
    };
    let block = CudaBlock::linear(64);
    let signatures = piton_training::signatures();
    let declared = signatures.iter().fold(training, |module, (name, takes)| {
        module.with(name, takes.clone(), block)
    });
    driver.register(declared);
    let device = device(&driver, 0);
    for (name, takes) in &signatures {
        let found = kernel(&*device, name);
        let found = found.unwrap_or_else(|e| panic!("{name}: {e}: {:?}", driver.build_log(MODULE)));
        assert_eq!(found.signature(), takes);
    }
    driver.register(module("no CUDA C"));
    kernel(&*device, "conformance_add").unwrap_err();
    let log = driver.build_log(MODULE).unwrap();
    assert!(log.contains("error"), "{log}");
}
