// SPDX-License-Identifier: GPL-2.0

#include <linux/device.h>
#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem_odp.h>

#include "odp.h"

struct ib_umem_odp *
metaroce_odp_get(struct ib_device *dev, unsigned long addr, size_t size,
		 int access, const struct mmu_interval_notifier_ops *ops)
{
	struct ib_umem_odp *odp;

	if (!IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		return ERR_PTR(-EOPNOTSUPP);
	odp = ib_umem_odp_get(dev, addr, size, access, ops);
	/* A worker may have it for longer than the device is registered. */
	if (!IS_ERR(odp))
		get_device(&dev->dev);
	return odp;
}

void metaroce_odp_release(struct ib_umem_odp *odp)
{
	struct ib_device *dev = odp->umem.ibdev;

	ib_umem_odp_release(odp);
	put_device(&dev->dev);
}

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
int metaroce_odp_map_and_lock(struct ib_umem_odp *odp, u64 start, u64 len,
			      bool write)
{
	return ib_umem_odp_map_dma_and_lock(odp, start, len,
					    write ? HMM_PFN_WRITE : 0, true);
}

void metaroce_odp_unmap(struct ib_umem_odp *odp, u64 start, u64 end)
{
	ib_umem_odp_unmap_dma_pages(odp, start, end);
}

/* Pages of memfd_secret() are not in the direct map for as long as processes have them. */
static bool is_in_direct_map(const struct page *page)
{
	const void *addr = page_address(page);
	u8 byte;

	return addr && !copy_from_kernel_nofault(&byte, addr, sizeof(byte));
}

struct page *metaroce_odp_page(const struct ib_umem_odp *odp, size_t index,
			       bool *writable)
{
	unsigned long pfn = odp->map.pfn_list[index];
	struct page *page;

	*writable = pfn & HMM_PFN_WRITE;
	if (!(pfn & HMM_PFN_VALID))
		return NULL;
	page = hmm_pfn_to_page(pfn);
	return is_in_direct_map(page) ? page : NULL;
}
#else
int metaroce_odp_map_and_lock(struct ib_umem_odp *odp, u64 start, u64 len,
			      bool write)
{
	return -EOPNOTSUPP;
}

void metaroce_odp_unmap(struct ib_umem_odp *odp, u64 start, u64 end)
{
}

struct page *metaroce_odp_page(const struct ib_umem_odp *odp, size_t index,
			       bool *writable)
{
	return NULL;
}
#endif

void metaroce_odp_lock(struct ib_umem_odp *odp)
{
	mutex_lock(&odp->umem_mutex);
}

void metaroce_odp_unlock(struct ib_umem_odp *odp)
{
	mutex_unlock(&odp->umem_mutex);
}

struct ib_umem_odp *metaroce_odp_of(struct mmu_interval_notifier *mni)
{
	return container_of(mni, struct ib_umem_odp, notifier);
}

u64 metaroce_odp_start(struct ib_umem_odp *odp)
{
	return ib_umem_start(odp);
}

u64 metaroce_odp_end(struct ib_umem_odp *odp)
{
	return ib_umem_end(odp);
}

/* As ib_core does for pages that a device may have written to. */
void metaroce_page_set_dirty(struct page *page)
{
	set_page_dirty(compound_head(page));
}

bool metaroce_mmu_range_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

void metaroce_mmu_interval_set_seq(struct mmu_interval_notifier *mni,
				   unsigned long seq)
{
	mmu_interval_set_seq(mni, seq);
}
