//! What a front end asks of its device, and the state of its two rings.
//!
//! A ring runs on the data thread, or it does not. Whatever is changed of a ring stops it there, and it
//! is started again as soon as all that it needs is known: so the data thread never sees half of a
//! change, and no change is answered before it holds.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Backend, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::memory::Region;
use super::{Command, Remote, Which};
use crate::features::{self, has};
use crate::ring::{MAX_SIZE, Memory, Setup};

/// What a virtual machine sees of its device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Its address.
    pub(crate) mac: [u8; 6],
    /// The longest IP packet it may send.
    pub(crate) mtu: u16,
}

impl Device {
    /// The device's configuration (virtio 1.2, section 5.1.4): address, status (the link is up), pairs of
    /// queues, MTU.
    fn configuration(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&1u16.to_le_bytes());
        bytes[8..10].copy_from_slice(&1u16.to_le_bytes());
        bytes[10..].copy_from_slice(&self.mtu.to_le_bytes());
        bytes
    }
}

/// A ring as far as it is known; addresses are the front end's.
#[derive(Debug, Default)]
struct Known {
    size: u16,
    addresses: Option<[u64; 3]>,
    next: u16,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    enabled: bool,
    running: bool,
}

/// One front end.
pub(super) struct Handler {
    vm: usize,
    device: Device,
    remote: Arc<Remote>,
    features: u64,
    protocol: u64,
    memory: Option<(Arc<Memory>, Vec<Region>)>,
    rings: [Known; 2],
    /// Held for what closing it would say: that the device is gone.
    back: Option<Backend>,
}

impl Handler {
    pub(super) fn new(vm: usize, device: Device, remote: Arc<Remote>) -> Self {
        Self {
            vm,
            device,
            remote,
            features: 0,
            protocol: 0,
            memory: None,
            rings: Default::default(),
            back: None,
        }
    }

    /// Whether replies were agreed on.
    pub(super) fn replies(&self) -> bool {
        self.protocol & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0
    }

    /// The guest's memory from now on.
    pub(super) fn set_memory(&mut self, memory: Memory, regions: Vec<Region>) {
        self.stop_all();
        self.memory = Some((Arc::new(memory), regions));
        self.start_all();
    }

    /// Stops both rings.
    pub(super) fn stop_all(&mut self) {
        for which in [Which::Receive, Which::Transmit] {
            self.stop(which);
        }
    }

    fn start_all(&mut self) {
        for which in [Which::Receive, Which::Transmit] {
            self.start(which);
        }
    }

    fn stop(&mut self, which: Which) {
        let known = &mut self.rings[which as usize];
        if !std::mem::take(&mut known.running) {
            return;
        }
        let (answer, answered) = sync_channel(1);
        if self.remote.send(Command::Stop { vm: self.vm, which, answer })
            && let Ok(Some(next)) = answered.recv()
        {
            known.next = next;
        }
    }

    /// Starts a ring if all is known of it.
    fn start(&mut self, which: Which) {
        let known = &mut self.rings[which as usize];
        let (Some((memory, regions)), Some(addresses), true) =
            (&self.memory, known.addresses, known.enabled)
        else {
            return;
        };
        let translate = |a: u64| regions.iter().find_map(|r| r.translate(a));
        let [Some(descriptors), Some(available), Some(used)] = addresses.map(translate) else {
            return;
        };
        let copy = |file: &Option<File>| file.as_ref().and_then(|f| f.try_clone().ok());
        let Some(kick) = copy(&known.kick) else { return };
        let setup = Setup {
            size: known.size,
            descriptors,
            available,
            used,
            next: known.next,
            event_index: has(self.features, features::EVENT_INDEX),
            merge: has(self.features, features::MERGE),
            header: features::header(self.features),
            kick: Some(kick),
            call: copy(&known.call),
        };
        let start = Command::Start {
            vm: self.vm,
            which,
            setup: Box::new(setup),
            memory: Arc::clone(memory),
            features: self.features,
            error: copy(&known.error),
        };
        known.running = self.remote.send(start);
    }

    /// Changes what is known of ring `index`, which does not run meanwhile.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Known)) -> Result<()> {
        let which = Which::of(index).ok_or(Error::InvalidParam)?;
        self.stop(which);
        change(&mut self.rings[which as usize]);
        self.start(which);
        Ok(())
    }
}

/// A descriptor of the front end's that can hold nobody up: reading and writing returns at once.
fn unblocked(file: Option<File>) -> Result<Option<File>> {
    use std::os::fd::AsRawFd;
    let Some(file) = file else { return Ok(None) };
    // SAFETY: takes no pointers; the descriptor is `file`'s.
    let done = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if done { Ok(Some(file)) } else { Err(Error::IncorrectFds) }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for Handler {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        self.rings = Default::default();
        self.features = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features::OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !features::OFFERED != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.stop_all();
        self.features = features;
        // A front end that does not speak of enabling rings wants them enabled.
        if !has(features, features::PROTOCOL) {
            self.rings.iter_mut().for_each(|known| known.enabled = true);
        }
        self.start_all();
        Ok(())
    }

    /// Never called: [`super::memory::receive`] takes the message.
    fn set_mem_table(
        &mut self,
        _: &[VhostUserMemoryRegion],
        _: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        unsupported()
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        if !size.is_power_of_two() || size > MAX_SIZE {
            return Err(Error::InvalidParam);
        }
        self.change(index, |known| known.size = size)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.change(index, |known| known.addresses = Some([descriptor, available, used]))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.change(index, |known| known.next = base as u16)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let which = Which::of(index).ok_or(Error::InvalidParam)?;
        self.stop(which);
        let known = &mut self.rings[which as usize];
        (known.kick, known.call) = (None, None);
        Ok(VhostUserVringState::new(index, known.next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = unblocked(fd)?;
        self.change(index.into(), |known| known.kick = file)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = unblocked(fd)?;
        self.change(index.into(), |known| known.call = file)
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let file = unblocked(fd)?;
        self.change(index.into(), |known| known.error = file)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.protocol = features;
        Ok(())
    }

    /// Never called: several pairs of rings are not offered.
    fn get_queue_num(&mut self) -> Result<u64> {
        unsupported()
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change(index, |known| known.enabled = enable)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let configuration = self.device.configuration();
        let rest = configuration.get(offset as usize..).unwrap_or_default();
        let padding = std::iter::repeat(0);
        Ok(rest.iter().copied().chain(padding).take(size as usize).collect())
    }

    /// A driver has nothing to say there (virtio 1.2, section 5.1.4: the fields are read-only).
    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Ok(())
    }

    fn set_backend_req_fd(&mut self, backend: Backend) {
        self.back = Some(backend);
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        unsupported()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        unsupported()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        unsupported()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        unsupported()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported()
    }
}
