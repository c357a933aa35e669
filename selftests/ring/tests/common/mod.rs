// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Plain memory as a ring's backing, for single-threaded tests.

use ring::Shared;
use std::cell::RefCell;

pub struct Memory(RefCell<Vec<u8>>);

impl Memory {
    pub fn new(len: usize) -> Self {
        Self(RefCell::new(vec![0; len]))
    }

    pub fn set_word(&self, off: usize, value: u32) {
        self.store_release(off, value).unwrap();
    }
}

impl Shared for Memory {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn load_acquire(&self, off: usize) -> Option<u32> {
        let mut word = [0; 4];
        self.read(off, &mut word)?;
        Some(u32::from_ne_bytes(word))
    }

    fn store_release(&self, off: usize, value: u32) -> Option<()> {
        self.write(off, &value.to_ne_bytes())
    }

    fn full_fence(&self) {}

    fn read(&self, off: usize, buf: &mut [u8]) -> Option<()> {
        let end = off.checked_add(buf.len())?;
        buf.copy_from_slice(self.0.borrow().get(off..end)?);
        Some(())
    }

    fn write(&self, off: usize, buf: &[u8]) -> Option<()> {
        let end = off.checked_add(buf.len())?;
        self.0.borrow_mut().get_mut(off..end)?.copy_from_slice(buf);
        Some(())
    }
}
