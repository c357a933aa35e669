/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hostile client: garbage in the rings that it shares with the kernel, and
 * in what it passes to the driver. The QP may die of it; nothing else may.
 * For metaroce alone: this knows its ABI.
 */
#ifndef RINGS_H
#define RINGS_H

#include "mrverbs.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/metaroce-abi.h>

struct mapping {
	uint8_t *start, *end;
};

struct ring {
	struct metaroce_ring_hdr *hdr;
	uint8_t *slots, *end;
	size_t stride;
};

struct rings {
	struct pair pair;
	struct buf buf;			/* registered at a */
	struct buf peer;		/* registered at b */
	struct mapping maps[64];
	int n_maps;
	struct ring sq, rq, scq, rcq;	/* those of a */
};

void need_metaroce(void);
/* What this process has mapped of devices; returns how many there are. */
int read_maps(struct mapping *maps, int room);
/* Two QPs that have talked a little, the rings of a's found in memory. */
void rings_new_deep(struct rings *r, struct env *env, int depth);
void rings_new(struct rings *r, struct env *env);
void doorbell(struct end *end, __u32 command);
void publish(struct rings *r, uint32_t producer);
/* What remains usable, and what goes away quietly. */
void aftermath(struct rings *r, struct env *env);

#endif /* RINGS_H */
