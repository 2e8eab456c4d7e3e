//! From the request for a virtual machine to the first line of its user space,
//! beside the same QEMU, with the same arguments, started by hand.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{
    CreateVmRequest, DestroyVmRequest, PodLogsRequest, VmAccelerator, VmKernel, VmSpec,
};

use crate::stats::{Scoreboard, skipped};
use crate::world::World;
use crate::{Effort, Result};

const LINE: &str = "user space is here";
const NAME: &str = "guest";
const BOOT: Duration = Duration::from_secs(120);
const OURS: &str = "strata: Create, until user space";
const WITH_NETWORK: &str = "strata: the same with a network";
const BARE: &str = "qemu-system, until user space";

pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    if let Some(why) = Guest::lacks() {
        skipped("virtual machines", why);
        return Ok(());
    }
    let world = World::new(binary).await?;
    let initrd = world.dir.path().join("initramfs");
    small_initramfs(&initrd, &format!("echo {LINE}\nexec sleep 1000000"))?;
    // The first finds out what QEMU can do here, which takes a moment.
    let words = ours(&world, &initrd, false).await?.1;
    let mut board = Scoreboard::default();
    for _ in 0..effort.vm_rounds {
        board.add(OURS, ours(&world, &initrd, false).await?.0);
        board.add(BARE, bare(&words, LINE)?);
        board.add(WITH_NETWORK, ours(&world, &initrd, true).await?.0);
    }
    board.print();
    board.ratio(OURS, BARE, "1.1");
    board.ratio(WITH_NETWORK, BARE, "-");
    Ok(())
}

/// How long it took, and the words that QEMU was started with.
async fn ours(world: &World, initrd: &Path, network: bool) -> Result<(Duration, Vec<String>)> {
    let mut spec = VmSpec {
        name: NAME.into(),
        memory_bytes: 192 << 20,
        boot: Some(Boot::Kernel(VmKernel {
            kernel: kernel().to_string_lossy().into_owned(),
            initrd: initrd.to_string_lossy().into_owned(),
            command_line: "console=ttyS0 quiet panic=-1".into(),
        })),
        no_network: !network,
        ..VmSpec::default()
    };
    spec.set_accelerator(VmAccelerator::Auto);
    let vms = world.node.client().vms();
    let begin = Instant::now();
    let request = CreateVmRequest {
        vm: Some(spec),
        start: true,
    };
    let vm = vms.clone().create(request).await?.into_inner();
    let request = PodLogsRequest {
        name: NAME.into(),
        follow: true,
        ..PodLogsRequest::default()
    };
    let mut lines = vms.clone().logs(request).await?.into_inner();
    let seen = async {
        while let Some(line) = lines.message().await? {
            if String::from_utf8_lossy(&line.line).contains(LINE) {
                return Ok(begin.elapsed());
            }
        }
        Err("the console ended without the line".into())
    };
    let taken: Result<Duration> = tokio::time::timeout(BOOT, seen).await?;
    let words = words_of(vm.process_id)?;
    let request = DestroyVmRequest { name: NAME.into() };
    vms.clone().destroy(request).await?;
    Ok((taken?, words))
}

/// The words that a process was started with.
pub(crate) fn words_of(pid: impl std::fmt::Display) -> Result<Vec<String>> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    let words = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    Ok(words.collect())
}

/// Pulls the plug in any case.
struct Plug(Child);

impl Drop for Plug {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same words, but for where its sockets are, until the console has a
/// line with this in it.
pub(crate) fn bare(words: &[String], wanted: &str) -> Result<Duration> {
    let dir = tempfile::tempdir()?;
    let moved: Vec<String> = words
        .iter()
        .map(|word| with_socket_in(word, dir.path()))
        .collect();
    let (program, words) = moved.split_first().ok_or("QEMU without words")?;
    let begin = Instant::now();
    let child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut plug = Plug(child);
    let output = plug.0.stdout.take().ok_or("no standard output")?;
    for line in BufReader::new(output).split(b'\n') {
        if String::from_utf8_lossy(&line?).contains(wanted) {
            return Ok(begin.elapsed());
        }
    }
    Err("QEMU ended without the line".into())
}

/// `socket,id=X,path=/A/B/NAME,...` with the same NAME in another directory.
fn with_socket_in(word: &str, dir: &Path) -> String {
    let parts = word
        .split(',')
        .map(|part| match part.strip_prefix("path=") {
            Some(path) => {
                let name = Path::new(path).file_name().unwrap_or_default();
                format!("path={}", dir.join(name).display())
            }
            None => part.to_owned(),
        });
    match word.starts_with("socket,") {
        true => parts.collect::<Vec<_>>().join(","),
        false => word.to_owned(),
    }
}
