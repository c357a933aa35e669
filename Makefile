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
KMAKE := make -s -C $(K_OUT) M=$(CURDIR) ARCH=x86 \
	CROSS_COMPILE=x86_64-linux-gnu- CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14 \
	-j$(JOBS) $(if $(V),V=$(V)) $(if $(WERROR),WERROR=$(WERROR))

Q := $(if $(V),,@)

.PHONY: all help modules provider clean
all: modules provider

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 } \
		/^##@/ { print "\n" substr($$0, 5) }' $(MAKEFILE_LIST)

##@ Build

modules: ## metaroce.ko for the stock kernel, in build/module
	@mkdir -p $(BUILD)/module
	$(Q)$(ENTER) $(KMAKE) MO=$(BUILD)/module modules

provider: ## the libibverbs provider, in build/libmetaroce
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce

clean: ## remove what was built, not the cache
	rm -rf $(BUILD)

##@ Test

.PHONY: check test style host-tests clippy-modules provider-check provider-test
.PHONY: selftests selftests-build
test: ## everything: build, check, selftests in the VM
	$(Q)tools/ci/test

check: style host-tests ## format, lints and host tests: no root, no VM

style:
	$(Q)tools/ci/style

host-tests:
	$(Q)tools/ci/host-tests

clippy-modules:
	@mkdir -p $(BUILD)/clippy
	$(Q)$(ENTER) $(KMAKE) MO=$(BUILD)/clippy CLIPPY=1 WERROR=1 modules

provider-check:
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce check

provider-test:
	$(Q)$(ENTER) make -s -C tools/libmetaroce OUT=$(BUILD)/libmetaroce test

selftests-build:
	$(Q)$(ENTER) make -s -C selftests OUTPUT=$(BUILD)/selftests

selftests: modules provider selftests-build ## selftests in the VM; TEST='name …' for some
	$(Q)VM_TIMEOUT=$${VM_TIMEOUT:-2400} tools/vm/run 'selftests/run.sh $(TEST)'

##@ Virtual machine

.PHONY: vm demo bench
vm: modules provider ## shell in a VM with module and provider; CMD='…' runs a command
	$(Q)tools/vm/run $(if $(CMD),'$(subst ','\'',$(CMD))')

demo: modules provider selftests-build ## two hosts in a VM: what MetaRoCE does
	$(Q)tools/vm/run selftests/demo.sh

bench: modules provider selftests-build ## measure in a VM against rxe and TCP
	$(Q)VM_TIMEOUT=$${VM_TIMEOUT:-3600} tools/vm/run 'tools/bench/run.sh $(BENCH)'
