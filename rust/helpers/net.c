// SPDX-License-Identifier: GPL-2.0

#include <linux/crc32.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "net.h"

/* UDP sockets. */

/* What setsockopt(UDP_GRO) does. */
static void metaroce_udp_accept_gro(struct sock *sk)
{
	lock_sock(sk);
	udp_tunnel_encap_enable(sk);
	udp_set_bit(GRO_ENABLED, sk);
	udp_set_bit(ACCEPT_L4, sk);
	release_sock(sk);
}

int metaroce_udp_open(struct net *net, int family, u16 port, bool shared,
		      bool multicast, int rcvbuf, struct socket **sockp)
{
	struct sockaddr_in6 addr6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	struct sockaddr_in addr4 = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	struct socket *sock;
	int err;

	err = sock_create_kern(net, family, SOCK_DGRAM, IPPROTO_UDP, &sock);
	if (err)
		return err;
	sock_set_rcvbuf(sock->sk, rcvbuf);
	metaroce_udp_accept_gro(sock->sk);
	if (shared)
		sock_set_reuseport(sock->sk);
	/* Each socket that may have them gets a copy of multicast packets. */
	if (!multicast && family == AF_INET6)
		inet6_clear_bit(MC6_ALL, sock->sk);
	else if (!multicast)
		inet_clear_bit(MC_ALL, sock->sk);
	if (family == AF_INET6) {
		err = ip6_sock_set_v6only(sock->sk);
		if (!err)
			err = kernel_bind(sock, (struct sockaddr_unsized *)&addr6,
					  sizeof(addr6));
	} else {
		err = kernel_bind(sock, (struct sockaddr_unsized *)&addr4,
				  sizeof(addr4));
	}
	if (err) {
		sock_release(sock);
		return err;
	}
	*sockp = sock;
	return 0;
}

void metaroce_sk_set_callback(struct sock *sk, void (*ready)(struct sock *sk),
			      void *data)
{
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, data);
	WRITE_ONCE(sk->sk_data_ready, ready);
	write_unlock_bh(&sk->sk_callback_lock);
}

/*
 * A socket that sends and receives nothing: packets are on its account until
 * they are freed, or received on the same host.
 */
int metaroce_account_open(struct net *net, void (*room)(struct sock *sk),
			  void *data, struct socket **sockp,
			  void (**saved)(struct sock *sk))
{
	struct sock *sk;
	int err;

	err = sock_create_kern(net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, sockp);
	if (err)
		return err;
	sk = (*sockp)->sk;
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, data);
	*saved = sk->sk_write_space;
	WRITE_ONCE(sk->sk_write_space, room);
	write_unlock_bh(&sk->sk_callback_lock);
	return 0;
}

/* Packets that are left may outlive the module: they call what they did before. */
void metaroce_account_close(struct sock *sk, void (*saved)(struct sock *sk))
{
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	WRITE_ONCE(sk->sk_write_space, saved);
	write_unlock_bh(&sk->sk_callback_lock);
}

bool metaroce_account_is_full(const struct sock *sk)
{
	return sk_wmem_alloc_get(sk) >= READ_ONCE(sk->sk_sndbuf);
}

void metaroce_skb_charge(struct sk_buff *skb, struct sock *sk)
{
	skb_set_owner_w(skb, sk);
}

void *metaroce_sk_user_data(const struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

u32 metaroce_sk_drops(const struct sock *sk)
{
	return sk_drops_read(sk);
}

struct sk_buff *metaroce_skb_recv_udp(struct sock *sk)
{
	struct sk_buff *skb;
	int err;

	/* Errors that the network reported go before the packets. */
	do
		skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
	while (!skb && err != -EAGAIN);
	/* UDP has kept its own notes there. */
	if (skb)
		skb->dev = NULL;
	return skb;
}

/* Received packets. */

bool metaroce_udp_checksum_ok(struct sk_buff *skb)
{
	return !udp_lib_checksum_complete(skb);
}

/*
 * UDP took such a packet for good (csum_valid), and when it pulled its header,
 * CHECKSUM_PARTIAL became CHECKSUM_NONE, since the place of the checksum is not
 * in the data any more (skb_postpull_rcsum()). Where it was still says csum_start,
 * which otherwise is half of a checksum or zero.
 */
bool metaroce_skb_is_local(const struct sk_buff *skb)
{
	return skb->ip_summed == CHECKSUM_NONE && skb->csum_valid &&
	       skb->csum_start == skb->transport_header &&
	       skb->csum_offset == offsetof(struct udphdr, check);
}

u32 metaroce_skb_udp_gso_size(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : 0;
}

struct sk_buff *metaroce_skb_clone(struct sk_buff *skb)
{
	return skb_clone(skb, GFP_ATOMIC);
}

u32 metaroce_skb_pagelen(const struct sk_buff *skb)
{
	return skb_pagelen(skb);
}

struct sk_buff *metaroce_skb_frag_list(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->frag_list;
}

struct sk_buff *metaroce_skb_next(const struct sk_buff *skb)
{
	return skb->next;
}

u32 metaroce_skb_iif(const struct sk_buff *skb)
{
	return skb->skb_iif;
}

/* The bytes must be there. */
u32 metaroce_skb_crc32c(struct sk_buff *skb, u32 off, u32 len, u32 crc)
{
#ifdef CONFIG_NET_CRC32C
	return skb_crc32c(skb, off, len, crc);
#else
	/* Only what is built with the kernel can select that. */
	struct skb_seq_state state;
	const u8 *data;
	u32 n, done = 0;

	skb_prepare_seq_read(skb, off, off + len, &state);
	while (done < len && (n = skb_seq_read(done, &data, &state))) {
		/* A block may go on beyond the end. */
		n = min(n, len - done);
		crc = crc32c(crc, data, n);
		done += n;
	}
	skb_abort_seq_read(&state);
	return crc;
#endif
}

const u8 *metaroce_skb_network_header(const struct sk_buff *skb)
{
	return skb_network_header(skb);
}

const u8 *metaroce_skb_transport_header(const struct sk_buff *skb)
{
	return skb_transport_header(skb);
}

/* Packets to send. */

struct sk_buff *metaroce_skb_alloc_burst(u32 headroom, u32 linear)
{
	struct sk_buff *skb = alloc_skb(headroom + linear, GFP_ATOMIC);

	if (skb)
		skb_reserve(skb, headroom);
	return skb;
}

u32 metaroce_skb_tailroom(const struct sk_buff *skb)
{
	return skb_tailroom(skb);
}

void *metaroce_skb_put(struct sk_buff *skb, u32 len)
{
	return skb_put(skb, len);
}

int metaroce_skb_trim(struct sk_buff *skb, u32 len)
{
	return pskb_trim(skb, len);
}

u32 metaroce_skb_nr_frags(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->nr_frags;
}

int metaroce_skb_add_page(struct sk_buff *skb, struct page *page, u32 offset,
			  u32 len)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 i = shinfo->nr_frags;

	if (i) {
		skb_frag_t *last = &shinfo->frags[i - 1];
		struct page *head = skb_frag_page(last);
		size_t end = skb_frag_off(last) + skb_frag_size(last);

		/* One piece of memory: pages of one folio are adjacent. */
		if (page_folio(page) == page_folio(head) &&
		    folio_page_idx(page_folio(page), page) * PAGE_SIZE + offset ==
		    folio_page_idx(page_folio(head), head) * PAGE_SIZE + end) {
			skb_frag_size_add(last, len);
			skb_len_add(skb, len);
			return 0;
		}
	}
	if (i >= MAX_SKB_FRAGS)
		return -EMSGSIZE;
	get_page(page);
	__skb_fill_page_desc_noacc(shinfo, i, page, offset, len);
	shinfo->nr_frags = i + 1;
	skb_len_add(skb, len);
	return 0;
}

int metaroce_skb_add_user_page(struct sk_buff *skb, struct page *page,
			       u32 offset, u32 len)
{
	/* Whoever computes a checksum of it has to copy it first. */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	return metaroce_skb_add_page(skb, page, offset, len);
}

void *metaroce_netdev_alloc_frag(u32 size)
{
	return netdev_alloc_frag(size);
}

void metaroce_skb_set_priority(struct sk_buff *skb, u32 priority)
{
	skb->priority = priority;
}

void metaroce_skb_free_frag(void *data)
{
	skb_free_frag(data);
}

void metaroce_skb_set_udp_gso(struct sk_buff *skb, u16 size, u16 segs)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);

	shinfo->gso_size = size;
	shinfo->gso_segs = segs;
	shinfo->gso_type = SKB_GSO_UDP_L4;
	skb->ip_summed = CHECKSUM_PARTIAL;
	/* The UDP header will be pushed before the data. */
	skb->csum_start = skb_headroom(skb) - sizeof(struct udphdr);
	skb->csum_offset = offsetof(struct udphdr, check);
}

/* @data is memory of metaroce_netdev_alloc_frag(). */
int metaroce_skb_add_bytes(struct sk_buff *skb, const void *data, u32 len)
{
	struct page *page = virt_to_head_page(data);

	return metaroce_skb_add_page(skb, page, data - page_address(page), len);
}

/* Routes. */

/* The namespace lives as in metaroce_net_dev_net_get(). */
struct dst_entry *metaroce_route4(struct net_device *dev, u32 tag,
				  __be32 saddr, __be32 daddr, __be16 sport,
				  __be16 dport, u8 tos)
{
	struct flowi4 fl4 = {};
	struct rtable *rt;
	struct net *net;

	rcu_read_lock();
	if (tag)
		dev = metaroce_net_dev_vlan_rcu(dev, tag);
	if (!dev || READ_ONCE(dev->reg_state) != NETREG_REGISTERED) {
		rcu_read_unlock();
		return ERR_PTR(-ENODEV);
	}
	net = dev_net_rcu(dev);
	/* What is local is reached by whatever device. */
	if (inet_addr_type(net, daddr) != RTN_LOCAL)
		fl4.flowi4_oif = dev->ifindex;
	fl4.flowi4_proto = IPPROTO_UDP;
	fl4.flowi4_dscp = inet_dsfield_to_dscp(tos);
	fl4.saddr = saddr;
	fl4.daddr = daddr;
	fl4.fl4_sport = sport;
	fl4.fl4_dport = dport;
	rt = ip_route_output_key(net, &fl4);
	rcu_read_unlock();
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

struct dst_entry *metaroce_route6(struct net_device *dev, u32 tag,
				  const struct in6_addr *saddr,
				  const struct in6_addr *daddr, __be16 sport,
				  __be16 dport, u8 tos, u32 *cookie)
{
	bool strict = ipv6_addr_type(daddr) & IPV6_ADDR_LINKLOCAL;
	struct dst_entry *dst;
	struct flowi6 fl6 = {};
	struct net *net;

	rcu_read_lock();
	if (tag)
		dev = metaroce_net_dev_vlan_rcu(dev, tag);
	if (!dev || READ_ONCE(dev->reg_state) != NETREG_REGISTERED) {
		rcu_read_unlock();
		return ERR_PTR(-ENODEV);
	}
	net = dev_net_rcu(dev);
	/* As above, where the address says enough. */
	if (strict || !ipv6_chk_addr(net, daddr, NULL, 0))
		fl6.flowi6_oif = dev->ifindex;
	fl6.flowi6_proto = IPPROTO_UDP;
	fl6.flowlabel = ip6_make_flowinfo(tos, 0);
	fl6.saddr = *saddr;
	fl6.daddr = *daddr;
	fl6.fl6_sport = sport;
	fl6.fl6_dport = dport;
	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	rcu_read_unlock();
	if (IS_ERR(dst))
		return dst;
	if (dst->error) {
		int err = dst->error;

		dst_release(dst);
		return ERR_PTR(err);
	}
	*cookie = rt6_get_cookie(dst_rt6_info(dst));
	return dst;
}

bool metaroce_dst_valid(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

u32 metaroce_dst_mtu(const struct dst_entry *dst)
{
	return dst_mtu(dst);
}

bool metaroce_dst_is_local(const struct dst_entry *dst)
{
	return READ_ONCE(dst_dev(dst)->flags) & IFF_LOOPBACK;
}

static void metaroce_push_udp(struct sk_buff *skb, __be16 sport, __be16 dport)
{
	struct udphdr *uh = skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	uh->source = sport;
	uh->dest = dport;
	uh->len = htons(skb->len);
}

/*
 * What is sent to a group is for members on this host too. The functions for
 * tunnels do not give it to them: the stack takes their packets for copies.
 */
static void metaroce_xmit4_group(struct dst_entry *dst, struct sk_buff *skb,
				 __be32 saddr, __be32 daddr, u8 tos, u8 ttl,
				 __be16 sport, __be16 dport)
{
	struct net *net = dev_net(dst_dev(dst));
	struct iphdr *iph;

	metaroce_push_udp(skb, sport, dport);
	udp_set_csum(false, skb, saddr, daddr, skb->len);
	skb_dst_set(skb, dst);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	iph = skb_push(skb, sizeof(*iph));
	skb_reset_network_header(skb);
	iph->version = 4;
	iph->ihl = sizeof(*iph) >> 2;
	iph->tos = tos;
	iph->frag_off = htons(IP_DF);
	iph->ttl = ttl;
	iph->protocol = IPPROTO_UDP;
	iph->saddr = saddr;
	iph->daddr = daddr;
	__ip_select_ident(net, iph, skb_shinfo(skb)->gso_segs ?: 1);
	ip_local_out(net, NULL, skb);
}

static void metaroce_xmit6_group(struct dst_entry *dst, struct sk_buff *skb,
				 const struct in6_addr *saddr,
				 const struct in6_addr *daddr, u8 tos, u8 ttl,
				 __be16 sport, __be16 dport)
{
	struct ipv6hdr *ip6h;

	metaroce_push_udp(skb, sport, dport);
	udp6_set_csum(false, skb, saddr, daddr, skb->len);
	skb_dst_set(skb, dst);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	ip6h = skb_push(skb, sizeof(*ip6h));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip6h, tos, 0);
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = ttl;
	ip6h->saddr = *saddr;
	ip6h->daddr = *daddr;
	ip6_local_out(dev_net(dst_dev(dst)), NULL, skb);
}

void metaroce_xmit4(struct dst_entry *dst, struct sk_buff *skb, __be32 saddr,
		    __be32 daddr, u8 tos, u8 ttl, __be16 sport, __be16 dport)
{
	dst_hold(dst);
	skb->priority = rt_tos2priority(tos);
	if (ipv4_is_multicast(daddr)) {
		metaroce_xmit4_group(dst, skb, saddr, daddr, tos, ttl, sport,
				     dport);
		return;
	}
	udp_tunnel_xmit_skb(dst_rtable(dst), NULL, skb, saddr, daddr, tos, ttl,
			    htons(IP_DF), sport, dport, false, false, 0);
}

void metaroce_xmit6(struct dst_entry *dst, struct sk_buff *skb,
		    const struct in6_addr *saddr, const struct in6_addr *daddr,
		    u8 tos, u8 ttl, __be16 sport, __be16 dport)
{
	dst_hold(dst);
	skb->priority = rt_tos2priority(tos);
	if (ipv6_addr_is_multicast(daddr)) {
		metaroce_xmit6_group(dst, skb, saddr, daddr, tos, ttl, sport,
				     dport);
		return;
	}
	udp_tunnel6_xmit_skb(dst, NULL, skb, NULL, saddr, daddr, tos, ttl, 0,
			     sport, dport, false, 0);
}
