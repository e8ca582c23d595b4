//! Loading the programs.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfLoader};

use evenkeel_core::plan::PROGRAMS;

use crate::Error;
use crate::error::words;
use crate::maps::Maps;

/// The object, aligned as an ELF file must be.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/evenkeel.bpf.o"));

/// Does nothing: what a program costs is measured beside it.
pub const NOTHING: &str = "ek_nothing";

/// The programs and their maps in the kernel. Dropped, they live on where they are attached.
#[derive(Debug)]
pub struct Programs {
    ebpf: Ebpf,
    cgroups: bool,
}

impl Programs {
    /// Loads them for a device with so many bytes before the IP packet (14 on Ethernet, 0 on
    /// header-less devices), with control groups where the kernel can tell them.
    pub fn load(link_header: u16) -> Result<Self, Error> {
        Self::load_with(link_header, true).or_else(|_| Self::load_with(link_header, false))
    }

    /// Whether rules on control groups have an effect.
    pub const fn has_cgroups(&self) -> bool {
        self.cgroups
    }

    fn load_with(link_header: u16, cgroups: bool) -> Result<Self, Error> {
        let mut loader = EbpfLoader::new();
        // No relocation asks for the kernel's own types.
        loader.btf(None);
        let flag = u8::from(cgroups);
        loader.override_global("with_cgroups", &flag, true);
        let header = link_header as u8;
        loader.override_global("link_header", &header, true);
        let ebpf = loader.load(OBJECT).map_err(|e| Error::Load(words(&e)))?;
        let mut this = Programs { ebpf, cgroups };
        PROGRAMS.into_iter().try_for_each(|p| this.load_one(p))?;
        Ok(this)
    }

    /// Loads [`NOTHING`] as well.
    pub fn load_nothing(&mut self) -> Result<(), Error> {
        self.load_one(NOTHING)
    }

    /// Attaches [`NOTHING`], once loaded, at both of a device's tcx hooks (Linux 6.6), as programs of
    /// others are. It is gone with `self`.
    pub fn attach_nothing(&mut self, device: &str) -> Result<(), Error> {
        let refused = |e: aya::programs::ProgramError| {
            Error::Load(format!(
                "attach {NOTHING} to {device} at tcx: {}",
                words(&e)
            ))
        };
        let program = self.ebpf.program_mut(NOTHING);
        let program: &mut SchedClassifier = program
            .ok_or_else(|| Error::Load(format!("{NOTHING} is not in the object")))?
            .try_into()
            .map_err(refused)?;
        for hook in [TcAttachType::Ingress, TcAttachType::Egress] {
            let order = TcAttachOptions::TcxOrder(LinkOrder::default());
            program
                .attach_with_options(device, hook, order)
                .map_err(refused)?;
        }
        Ok(())
    }

    fn load_one(&mut self, name: &str) -> Result<(), Error> {
        let refused =
            |e: aya::programs::ProgramError| Error::Load(format!("{name}: {}", words(&e)));
        let program: &mut SchedClassifier = self
            .ebpf
            .program_mut(name)
            .ok_or_else(|| Error::Load(format!("{name} is not in the object")))?
            .try_into()
            .map_err(refused)?;
        // The verifier gives up when a signal is pending (`bpf_check`); libbpf asks as often.
        let mut tries = 0..5;
        while let Err(e) = program.load() {
            if tries.next().is_none() || !is_interrupted(&e) {
                return Err(refused(e));
            }
        }
        Ok(())
    }

    /// The descriptor of the program of this name, for as long as this lives.
    pub fn fd(&self, name: &str) -> Result<RawFd, Error> {
        let program = self.program(name)?;
        let fd = program.fd().map_err(|e| Error::Load(words(&e)))?;
        Ok(fd.as_fd().as_raw_fd())
    }

    /// What the programs look at.
    pub fn maps(&mut self) -> Result<Maps, Error> {
        Maps::take(&mut self.ebpf)
    }

    fn program(&self, name: &str) -> Result<&SchedClassifier, Error> {
        self.ebpf
            .program(name)
            .ok_or_else(|| Error::Load(format!("{name} is not in the object")))?
            .try_into()
            .map_err(|e: aya::programs::ProgramError| Error::Load(words(&e)))
    }

    /// Runs a program on a packet once (`BPF_PROG_TEST_RUN`).
    pub fn test_run_out(&self, program: &str, packet: &[u8], context: &[u8]) -> Result<Ran, Error> {
        let mut ran = Ran {
            returned: 0,
            packet: vec![0; packet.len() + LONGER],
            context: vec![0; context.len()],
        };
        let options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut ran.packet),
            ctx_in: Some(context),
            ctx_out: Some(&mut ran.context),
            repeat: 1,
            ..TestRunOptions::default()
        };
        let result = self.program(program)?.test_run(options);
        let result = result.map_err(|e| Error::Load(words(&e)))?;
        ran.returned = result.return_value;
        ran.packet.truncate(result.data_size_out as usize);
        Ok(ran)
    }

    /// Runs a program on a packet (`BPF_PROG_TEST_RUN`): what it returned, its context after it
    /// (`struct __sk_buff`), and the mean time of `repeat` runs, ns.
    pub fn test_run(
        &self,
        program: &str,
        packet: &[u8],
        context: &[u8],
        repeat: u32,
    ) -> Result<(u32, Vec<u8>, u64), Error> {
        let mut after = vec![0; context.len()];
        let options = TestRunOptions {
            data_in: Some(packet),
            ctx_in: (!context.is_empty()).then_some(context),
            ctx_out: (!context.is_empty()).then_some(after.as_mut_slice()),
            repeat,
            ..TestRunOptions::default()
        };
        let ran = self
            .program(program)?
            .test_run(options)
            .map_err(|e| Error::Load(words(&e)))?;
        let took = ran.duration.as_nanos() as u64;
        Ok((ran.return_value, after, took))
    }

    /// The same, once: what it returned, and the packet as it is after it.
    pub fn test_packet(&self, program: &str, packet: &[u8]) -> Result<(u32, Vec<u8>), Error> {
        let mut after = vec![0; packet.len() + LONGER];
        let options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut after),
            ..TestRunOptions::default()
        };
        let ran = self
            .program(program)?
            .test_run(options)
            .map_err(|e| Error::Load(words(&e)))?;
        after.truncate(ran.data_size_out as usize);
        Ok((ran.return_value, after))
    }
}

/// A program may make a packet longer by so much.
const LONGER: usize = 256;

/// What a test run left.
#[derive(Debug)]
pub struct Ran {
    /// What the program returned.
    pub returned: u32,
    /// The packet after it.
    pub packet: Vec<u8>,
    /// Its context (`struct __sk_buff`).
    pub context: Vec<u8>,
}

fn is_interrupted(e: &aya::programs::ProgramError) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(e);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::WouldBlock;
        }
        next = e.source();
    }
    false
}
