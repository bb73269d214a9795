/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers and layouts that the driver's programs share with user space. They are declared in Rust,
 * in the crate abi; forwarding/port/build.rs writes facts.h from it.
 */
#pragma once
#include "facts.h"
