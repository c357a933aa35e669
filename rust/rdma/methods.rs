// SPDX-License-Identifier: GPL-2.0

//! What user space can ask of a driver beyond verbs: methods of `ioctl()`.
//!
//! ib_core parses a call by the description of its attributes: it refuses what is missing
//! (`EINVAL`), unknown and mandatory (`EPROTONOSUPPORT`), too short (`EINVAL`), or longer than is
//! known here and not zero there (`EOPNOTSUPP`), and finds and locks the objects that are named
//! (`ENOENT` if there is none of that number, `EINVAL` if it is of another kind).
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use bindings::UserAbi;
use kernel::{
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    prelude::*, //
};

use super::{
    ops::Operations,
    Device,
    Qp, //
};

/// Bits of a description, as C has them one after the other.
const ZERO_TRAILING: u8 = 1 << 0;
const MANDATORY: u8 = 1 << 2;

/// How a method uses an object that it is given.
#[derive(Clone, Copy)]
pub enum Access {
    /// Together with others.
    Shared,
    /// While no other method or verb does.
    Exclusive,
}

/// Describes an attribute of a method.
#[repr(transparent)]
pub struct Attr(bindings::uverbs_attr_def);

// SAFETY: A description does not change, and points to nothing.
unsafe impl Sync for Attr {}

impl Attr {
    const fn new(id: u16, kind: bindings::uverbs_attr_type, flags: u8) -> Self {
        let mut raw: bindings::uverbs_attr_def = pin_init::zeroed();
        raw.id = id;
        // CAST: A small constant.
        raw.attr.type_ = kind as u8;
        raw.attr._bitfield_1 = bindings::__BindgenBitfieldUnit::new([flags | MANDATORY]);
        Self(raw)
    }

    const fn structure<A: UserAbi>(
        id: u16,
        kind: bindings::uverbs_attr_type,
        min_len: usize,
    ) -> Self {
        let mut this = Self::new(id, kind, ZERO_TRAILING);
        assert!(min_len <= size_of::<A>() && size_of::<A>() <= u16::MAX as usize);
        // CAST: By the assertion.
        let (len, min_len) = (size_of::<A>() as u16, min_len as u16);
        this.0.attr.u.ptr = bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_1 { len, min_len };
        this
    }

    /// A structure that the caller passes. What it has beyond this one must be zero.
    pub const fn input<A: UserAbi>(id: u16) -> Self {
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;
        Self::structure::<A>(id, kind, size_of::<A>())
    }

    /// A structure that the caller gets, or as much of it as fits, which is `min_len` bytes at least:
    /// what it had when it was first defined.
    pub const fn output<A: UserAbi>(id: u16, min_len: usize) -> Self {
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
        Self::structure::<A>(id, kind, min_len)
    }

    /// A queue pair of the caller.
    pub const fn qp(id: u16, access: Access) -> Self {
        let mut this = Self::new(id, bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDR, 0);
        let access = match access {
            Access::Shared => bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
            Access::Exclusive => bindings::uverbs_obj_access_UVERBS_ACCESS_WRITE,
        };
        this.0.attr.u.obj = bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_2 {
            // CAST: Small constants.
            obj_type: bindings::uverbs_default_objects_UVERBS_OBJECT_QP as u16,
            access: access as u8,
        };
        this
    }
}

/// Carries a method out.
pub trait Handler<T: Operations> {
    /// Takes the input from `call`, and puts the output there. Process context; the objects that the
    /// call names are locked as their attributes say.
    fn handle(call: &Call<'_, T>) -> Result;
}

/// Describes a method.
#[repr(transparent)]
pub struct Method<T: Operations> {
    raw: bindings::uverbs_method_def,
    _driver: PhantomData<T>,
}

// SAFETY: A description does not change, and neither does what it points to, which is `'static`.
unsafe impl<T: Operations> Sync for Method<T> {}

impl<T: Operations> Method<T> {
    /// A method that `H` carries out.
    pub const fn new<H: Handler<T>, const N: usize>(
        id: u16,
        attrs: &'static [&'static Attr; N],
    ) -> Self {
        let mut raw: bindings::uverbs_method_def = pin_init::zeroed();
        raw.id = id;
        raw.num_attrs = N;
        // References to what is transparent are pointers to it.
        raw.attrs = (&raw const *attrs).cast();
        raw.handler = Some(Self::handler::<H>);
        Self {
            raw,
            _driver: PhantomData,
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a parsed call of this method for a device of `T`.
    unsafe extern "C" fn handler<H: Handler<T>>(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        from_result(|| {
            let call = Call {
                attrs: NonNull::new(attrs).ok_or(EINVAL)?,
                _driver: PhantomData,
            };
            H::handle(&call).map(|()| 0)
        })
    }
}

/// Describes an object that has methods and no instances.
#[repr(transparent)]
pub struct MethodObject<T: Operations> {
    raw: bindings::uverbs_object_def,
    _driver: PhantomData<T>,
}

// SAFETY: As for a method.
unsafe impl<T: Operations> Sync for MethodObject<T> {}

impl<T: Operations> MethodObject<T> {
    /// An object with these methods.
    pub const fn new<const N: usize>(id: u16, methods: &'static [&'static Method<T>; N]) -> Self {
        let mut raw: bindings::uverbs_object_def = pin_init::zeroed();
        raw.id = id;
        raw.num_methods = N;
        // As in `Method::new`.
        raw.methods = (&raw const *methods).cast();
        Self {
            raw,
            _driver: PhantomData,
        }
    }
}

/// All that a driver adds to verbs: one object, and the mark of the end.
#[repr(transparent)]
pub struct Definitions<T: Operations> {
    raw: [bindings::uapi_definition; 2],
    _driver: PhantomData<T>,
}

// SAFETY: As for a method.
unsafe impl<T: Operations> Sync for Definitions<T> {}

impl<T: Operations> Definitions<T> {
    /// The methods of `object`.
    pub const fn new(object: &'static MethodObject<T>) -> Self {
        let end: bindings::uapi_definition = pin_init::zeroed();
        let mut chain = end;
        // CAST: A small constant.
        chain.kind = bindings::uapi_definition_kind_UAPI_DEF_CHAIN_OBJ_TREE as u8;
        chain.__bindgen_anon_1.object_start =
            bindings::uapi_definition__bindgen_ty_1__bindgen_ty_1 {
                object_id: object.raw.id,
            };
        chain.__bindgen_anon_2.chain_obj_tree = &raw const object.raw;
        Self {
            raw: [chain, end],
            _driver: PhantomData,
        }
    }

    /// Returns the C list.
    pub(super) const fn as_raw(&'static self) -> *const bindings::uapi_definition {
        (&raw const self.raw).cast()
    }
}

/// A call of a method.
///
/// # Invariants
///
/// `attrs` are those of a call that ib_core has parsed by the description of a method of `T`, and
/// that is in progress.
pub struct Call<'a, T: Operations> {
    attrs: NonNull<bindings::uverbs_attr_bundle>,
    _driver: PhantomData<&'a T>,
}

impl<T: Operations> Call<'_, T> {
    /// Returns the device.
    ///
    /// # Errors
    ///
    /// `EIO` if it is gone.
    pub fn device(&self) -> Result<&Device<T>> {
        // SAFETY: By the type invariant.
        let raw = unsafe { bindings::metaroce_uverbs_ucontext(self.attrs.as_ptr()) };
        let context = from_err_ptr(raw)?;
        // SAFETY: ib_core keeps a device from going while a call is in progress.
        Ok(unsafe { Device::from_raw((*context).device) })
    }

    /// Returns the queue pair that an attribute names.
    pub fn qp(&self, id: u16) -> Result<&Qp<T>> {
        // SAFETY: By the type invariant.
        let raw = unsafe { bindings::metaroce_uverbs_attr_obj(self.attrs.as_ptr(), id) };
        let qp = from_err_ptr(raw)?;
        // SAFETY: The attribute is described as a queue pair, which ib_core has found among those of
        // the device and keeps while the call is in progress.
        Ok(unsafe { Qp::<T>::from_raw(qp.cast()) })
    }

    /// Copies what was passed in an attribute.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn input<A: UserAbi>(&self, id: u16) -> Result<A> {
        let mut value = A::default();
        // SAFETY: By the type invariant; all bytes are a valid value of the type.
        to_result(unsafe {
            bindings::metaroce_uverbs_copy_from(
                (&raw mut value).cast(),
                self.attrs.as_ptr(),
                id,
                size_of::<A>(),
            )
        })?;
        Ok(value)
    }

    /// Copies to the place that an attribute gives; what there is beyond `value` becomes zero.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn output<A: UserAbi>(&self, id: u16, value: &A) -> Result {
        // SAFETY: By the type invariant; the type has no padding.
        to_result(unsafe {
            bindings::uverbs_copy_to_struct_or_zero(
                self.attrs.as_ptr(),
                id.into(),
                (&raw const *value).cast(),
                size_of::<A>(),
            )
        })
    }
}
