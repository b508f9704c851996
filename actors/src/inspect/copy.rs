//! Archives of what is recorded, made page by page.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coppice_messages::ids::TenantId;
use coppice_store::{
    archive::{self, GatherError, Header, Pages, TreeRecords, WholeRecords},
    clock::{self, Mono},
};

use super::{Inspect, with_causes};
use crate::{
    api::{ApiError, Code, CopyOf, CopyPage, CopyRequest},
    limits::{COPIES_MAX, COPY_IDLE, COPY_PAGE_BYTES},
};

/// An archive under way, and when it was last asked for a page.
type Copy = (Arc<Mutex<Pages>>, Mono);

/// Archives that are being made. Cheap to clone.
#[derive(Clone, Default)]
pub struct Copies {
    made: Arc<Mutex<(u64, BTreeMap<u64, Copy>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Copies {
    fn enter(&self, pages: Pages) -> Result<u64, ApiError> {
        let mut made = lock(&self.made);
        let (last, copies) = &mut *made;
        copies.retain(|_, (_, used)| used.elapsed() < COPY_IDLE);
        if copies.len() >= COPIES_MAX {
            let message = format!("{COPIES_MAX} archives are being made: ask again later");
            return Err(ApiError::new(Code::Busy, message));
        }
        *last += 1;
        copies.insert(*last, (Arc::new(Mutex::new(pages)), clock::mono()));
        Ok(*last)
    }

    fn get(&self, copy: u64) -> Result<Arc<Mutex<Pages>>, ApiError> {
        let mut made = lock(&self.made);
        let Some((pages, used)) = made.1.get_mut(&copy) else {
            let message = format!(
                "there is no archive {copy}: nobody asked for {} s, or the host was started again; begin anew",
                COPY_IDLE.as_secs()
            );
            return Err(ApiError::new(Code::InvalidRequest, message));
        };
        *used = clock::mono();
        Ok(pages.clone())
    }
}

impl Inspect {
    /// An archive of what is recorded now.
    ///
    /// # Errors
    /// A tree that is not there, or a log that cannot be read.
    pub fn archive(&self, of: &CopyOf) -> Result<Pages, ApiError> {
        let header = |pos, trees| Header {
            v: archive::FORMAT,
            at: clock::now(),
            pos,
            trees,
        };
        match of {
            CopyOf::Trees(selection) => {
                let pos = self.log.position()?;
                let chosen = archive::choose(&self.log, selection)?;
                let trees = Some(chosen.len() as u64);
                let records = TreeRecords::new(self.log.clone(), chosen, pos);
                Ok(Pages::new(header(pos, trees), records))
            }
            CopyOf::Log => {
                let records = WholeRecords::new(&self.log)?;
                Ok(Pages::new(header(records.position(), None), records))
            }
        }
    }

    /// A page of an archive.
    ///
    /// # Errors
    /// [`Self::archive`]; an archive that is not being made.
    pub fn copy(&self, tenant: &TenantId, request: &CopyRequest) -> Result<CopyPage, ApiError> {
        let copy = match request.copy {
            Some(copy) => copy,
            None => {
                let of_one = match &request.of {
                    CopyOf::Trees(selection) => selection.tenant.as_ref() == Some(tenant),
                    CopyOf::Log => false,
                };
                if !of_one && *tenant != TenantId::host() {
                    let message = "an archive of several tenants is asked of the tenant _host";
                    return Err(ApiError::new(Code::InvalidRequest, message));
                }
                self.copies.enter(self.archive(&request.of)?)?
            }
        };
        let pages = self.copies.get(copy)?;
        let page = lock(&pages).page(request.offset, COPY_PAGE_BYTES)?;
        let page = page.ok_or_else(|| {
            let message = format!(
                "the archive {copy} does not go on at byte {}",
                request.offset
            );
            ApiError::new(Code::InvalidRequest, message)
        })?;
        Ok(CopyPage::new(copy, &page))
    }
}

impl From<GatherError> for ApiError {
    fn from(error: GatherError) -> Self {
        let code = match &error {
            GatherError::NoTree { .. } => Code::UnknownRun,
            GatherError::Read(_)
            | GatherError::Damaged { .. }
            | GatherError::Blob { .. }
            | GatherError::Encode { .. } => Code::LogUnreadable,
        };
        Self::new(code, with_causes(&error))
    }
}
