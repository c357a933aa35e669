// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* CMake wants a source in C. All of the provider is in libmetaroce_rust.a. */
extern const char metaroce_has_no_c[];
const char metaroce_has_no_c[] __attribute__((visibility("hidden"))) = "";
