//! Where libtracesmith-client is, if pkg-config knows; else it is among the system's libraries.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let found = Command::new("pkg-config").args(["--libs-only-L", "tracesmith-client"]).output();
    if let Ok(found) = found {
        for word in String::from_utf8_lossy(&found.stdout).split_whitespace() {
            println!("cargo:rustc-link-search=native={}", &word["-L".len()..]);
        }
    }
}
