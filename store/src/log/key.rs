//! How keys are put together: parts that no id can contain a zero byte of, ended by one, and big-endian numbers, so that order of keys is
//! order of meaning.

use coppice_messages::ids::{RunId, TenantId};

/// `<tenant> 0 <run> 0`
pub(super) fn of_run(tenant: &TenantId, run: &RunId) -> Vec<u8> {
    let (tenant, run) = (tenant.as_str().as_bytes(), run.as_str().as_bytes());
    let mut key = Vec::with_capacity(tenant.len() + run.len() + 10);
    key.extend_from_slice(tenant);
    key.push(0);
    key.extend_from_slice(run);
    key.push(0);
    key
}

/// `<tenant> 0`
pub(super) fn of_tenant(tenant: &TenantId) -> Vec<u8> {
    let mut key = Vec::with_capacity(tenant.as_str().len() + 40);
    key.extend_from_slice(tenant.as_str().as_bytes());
    key.push(0);
    key
}

/// The eight bytes of a number at the end of a key.
pub(crate) fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().copied().map(u64::from_be_bytes)
}

/// Eight bytes at the beginning of a value, and the rest.
pub(super) fn first_number(value: &[u8]) -> Option<(u64, &[u8])> {
    value
        .split_first_chunk::<8>()
        .map(|(number, rest)| (u64::from_be_bytes(*number), rest))
}

/// The tenant at the beginning of a key, and the rest.
pub(crate) fn read_tenant(key: &[u8]) -> Option<(TenantId, &[u8])> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let tenant = std::str::from_utf8(&key[..end]).ok()?;
    let tenant = if tenant == TenantId::host().as_str() {
        TenantId::host()
    } else {
        tenant.parse().ok()?
    };
    Some((tenant, &key[end + 1..]))
}

/// The tenant and run at the beginning of a key.
pub(crate) fn read_run(key: &[u8]) -> Option<(TenantId, RunId)> {
    let (tenant, rest) = read_tenant(key)?;
    Some((tenant, read_run_alone(rest)?))
}

/// The run at the beginning of what follows in a key.
pub(super) fn read_run_alone(rest: &[u8]) -> Option<RunId> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let run = std::str::from_utf8(&rest[..end]).ok()?;
    if run == RunId::system().as_str() {
        Some(RunId::system())
    } else {
        run.parse().ok()
    }
}
