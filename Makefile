# SPDX-License-Identifier: GPL-2.0
# Front end; "make help" lists what it does. The kernel's build system reads
# Kbuild, not this file.

# Everything that is built goes here, nothing beside the sources.
BUILD := $(CURDIR)/build
JOBS ?= $(shell nproc)

# Commands that build run in the build root (see tools/build/mkroot).
ENTER := tools/build/enter
K_OUT := /usr/src/metaroce/linux-build
# The compilers of the shipped kernel, as in tools/build/prepare.
KMAKE = make -s -C $(K_OUT) M=$(CURDIR) ARCH=x86 \
	CROSS_COMPILE=x86_64-linux-gnu- CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14 \
	-j$(JOBS) $(if $(V),V=$(V)) $(if $(WERROR),WERROR=$(WERROR))

# A Debian 13 machine with the headers of KVER needs no build root for modules
# that it installs; what the VM gets is always for the build root's kernel.
KVER ?= $(shell uname -r)
ifneq ($(filter install modules_install,$(MAKECMDGOALS)),)
NATIVE ?= $(shell tools/build/native --possible $(KVER) && echo y)
endif
ENTER_K := $(ENTER)
ifeq ($(NATIVE),y)
ENTER_K := env
K_OUT = $(or $(shell tools/build/native $(KVER)),$(error no tree to build against))
endif

Q := $(if $(V),,@)

# KERNEL=debug is for the debug kernel in everything below.
MODULES := $(BUILD)/module
ifeq ($(KERNEL),debug)
export KERNEL
MODULES := $(BUILD)/debug/module
ENTER_K := METAROCE_DEBUG=$$(tools/vm/mkdebug) tools/build/enter
KMAKE := make -s -C /debug M=$(CURDIR) ARCH=x86 LLVM=1 -j$(JOBS) \
	$(if $(V),V=$(V)) $(if $(WERROR),WERROR=$(WERROR))
endif

.PHONY: all help modules provider clean
all: modules provider

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 } \
		/^##@/ { print "\n" substr($$0, 5) }' $(MAKEFILE_LIST)

##@ Build

modules: ## metaroce.ko for the stock kernel, in build/module
	@mkdir -p $(MODULES)
	$(Q)$(ENTER_K) $(KMAKE) MO=$(MODULES) modules

provider: ## the libibverbs provider, in build/libmetaroce
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce

.PHONY: rdma-core-series rdma-core-build rdma-core-packages
rdma-core-series: ## the provider as patches against rdma-core, in build/rdma-core/patches
	$(Q)$(ENTER) tools/rdma-core/series $(BUILD)/rdma-core

rdma-core-build: ## … and rdma-core built with them
	$(Q)$(ENTER) tools/rdma-core/series $(BUILD)/rdma-core --build

rdma-core-packages: rdma-core-series ## … and Debian's packages of it, in build/rdma-core/debs
	$(Q)tools/rdma-core/packages $(BUILD)/rdma-core

##@ Install

.PHONY: install modules_install provider_install cache-clean
# The build root's kernel is what is installed for, unless built natively.
RELEASE = $(if $(filter y,$(NATIVE)),$(KVER),$(shell cat "$$(tools/build/mkroot)/usr/src/metaroce/release"))
MODDIR = $(DESTDIR)/lib/modules/$(RELEASE)/updates
LIBDIR := $(DESTDIR)/usr/lib/x86_64-linux-gnu
INCLUDEDIR := $(DESTDIR)/usr/include/infiniband
MANDIR := $(DESTDIR)/usr/share/man

install: modules_install provider_install ## module and provider, below DESTDIR

modules_install: modules
	install -d $(MODDIR)
	install -m 644 $(MODULES)/*.ko $(MODDIR)
	$(if $(DESTDIR),,depmod -a $(RELEASE))

provider_install: provider
	install -d $(LIBDIR)/libibverbs $(INCLUDEDIR) $(DESTDIR)/etc/libibverbs.d $(MANDIR)/man3 $(MANDIR)/man7
	cp -P $(BUILD)/libmetaroce/libmetaroce.so* $(LIBDIR)
	ln -sf ../libmetaroce.so.1 $(LIBDIR)/libibverbs/$(notdir $(wildcard $(BUILD)/libmetaroce/libmetaroce-rdmav*.so))
	install -m 644 tools/libmetaroce/include/infiniband/metaroce_dv.h $(INCLUDEDIR)
	install -m 644 tools/libmetaroce/man/*.3 $(MANDIR)/man3
	install -m 644 tools/libmetaroce/man/*.7 $(MANDIR)/man7
	install -m 644 $(BUILD)/libmetaroce/metaroce.driver $(DESTDIR)/etc/libibverbs.d

clean: ## remove what was built, not the cache
	rm -rf $(BUILD)

cache-clean: ## remove build roots, VM images and kernels of all versions
	rm -rf "$${METAROCE_CACHE:-/var/cache/metaroce}"

##@ Test

.PHONY: check test style host-tests clippy-modules provider-check provider-test
.PHONY: selftests selftests-build kunit
test: ## build, check, the quicker selftests in the VM
	$(Q)tools/ci/test

.PHONY: nightly
# In the kernel that checks itself: more takes hours there.
DEBUG_TESTS := kunit malformed nomem verbs_cq verbs_error verbs_mr verbs_order verbs_qp
nightly: ## as test, with every selftest and long simulations, some in the debug kernel, rdma-core
	$(Q)TEST= METAROCE_SEEDS=$${METAROCE_SEEDS:-10} VM_TIMEOUT=$${VM_TIMEOUT:-10800} \
		RDMA_CORE=y DEBUG_TESTS='$(DEBUG_TESTS)' tools/ci/test

check: style host-tests ## format, lints and host tests: no root, no VM

style:
	$(Q)tools/ci/style

host-tests:
	$(Q)tools/ci/host-tests

clippy-modules:
	@mkdir -p $(BUILD)/clippy
	$(Q)$(ENTER_K) $(KMAKE) MO=$(BUILD)/clippy CLIPPY=1 WERROR=1 modules

provider-check:
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce check

provider-test:
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce test

selftests-build:
	$(Q)$(ENTER) make -s -C selftests OUTPUT=$(BUILD)/selftests

kunit: ## the module's KUnit suites, in the debug kernel
	$(Q)$(MAKE) -s selftests KERNEL=debug TEST=kunit

selftests: modules provider selftests-build ## selftests in the VM; TEST='name …' for some
	$(Q)VM_TIMEOUT=$${VM_TIMEOUT:-3600} tools/vm/run 'selftests/run.sh $(TEST)'

##@ Tools

.PHONY: mrpaths
mrpaths: ## build/mrpaths: shows what paths do, live; needs debugfs
	$(Q)tools/build/cargo build -q --release --locked --manifest-path $(CURDIR)/tools/mrpaths/Cargo.toml \
		--target-dir $(BUILD)/cargo
	$(Q)cp $(BUILD)/cargo/release/mrpaths $(BUILD)/mrpaths

##@ Simulation

.PHONY: simulate
SIMULATE := all
simulate: ## all scenarios (minutes): tables, CSV and plots in build/simulate; SIMULATE='incast --seed 7' for one
	$(Q)tools/build/cargo build -q --release --locked --manifest-path $(CURDIR)/tools/sim/Cargo.toml \
		--target-dir $(BUILD)/cargo
	$(Q)$(BUILD)/cargo/release/metaroce-sim $(SIMULATE) --out $(BUILD)/simulate

##@ Virtual machine

.PHONY: vm demo bench-transport debug-kernel pyverbs
pyverbs: modules provider ## rdma-core's tests against MetaRoCE and Soft-RoCE
	$(Q)tools/pyverbs/run

vm: modules provider ## shell in a VM with module, provider, devices; CMD='…' runs a command
	$(Q)VM_HOSTS=$${VM_HOSTS-y} tools/vm/run $(if $(CMD),'$(subst ','\'',$(CMD))')

demo: modules provider selftests-build ## two hosts in a VM: what MetaRoCE does
	$(Q)tools/vm/run selftests/demo.sh

bench-transport: modules provider ## loss, failures, congestion in a VM: a table; SCENARIO='…'
	$(Q)VM_CLOCK=$${VM_CLOCK-0} VM_TIMEOUT=$${VM_TIMEOUT:-3600} tools/vm/run \
		tools/bench/transport.py $(SCENARIO)

debug-kernel: ## build the debug kernel (half an hour), for KERNEL=debug
	$(Q)tools/vm/mkdebug
