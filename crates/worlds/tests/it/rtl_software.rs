// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design that is the whole host of a lab. Its CPU is a state machine, which reads the ID of a simulated device and ends the run.
//! `rtl/pcie_stack/soc` has a design with a real core.

use crate::rtl_rig::{build, file, has_verilator, run};
use fabric::{HostId, Limits, Stop};
use lab::BuildOptions;
use plug::site::NativeCode;
use session::Session;
use std::fs;
use std::path::Path;

const HOST: &str = "version = 1\nlimit_us = 20000\n[host]\nroot_complex = \"rtl-root-complex\"\n\
    [host.rtl-root-complex]\ndesign = \"lab/software.toml\"\nsoftware = true\n";

/// The CPU. It enables the root complex, sets Secondary Bus Number to 1, and checks for the ID of `endpoint-test` on bus 1.
const CPU: &str = "
    logic [2:0] step;
    logic sent, sent_data, ended;
    logic [7:0] status;
    wire writes = step == 3'd0 || step == 3'd2;
    wire reads = step == 3'd3;
    assign s_axi_awvalid = writes && !sent;
    assign s_axi_awaddr = step == 3'd0 ? 64'hffff_ffff_0000_0004 : 64'hffff_fffe_0000_0018;
    assign s_axi_awlen = 8'd0;
    assign s_axi_awsize = 3'd2;
    assign s_axi_wvalid = writes && !sent_data;
    assign s_axi_wdata = step == 3'd0 ? 64'h0000_0001_0000_0000 : 64'h0000_0000_0001_0100;
    assign s_axi_wstrb = step == 3'd0 ? 8'hf0 : 8'h0f;
    assign s_axi_wlast = 1'b1;
    assign s_axi_bready = 1'b1;
    assign s_axi_arvalid = reads && !sent;
    assign s_axi_araddr = 64'hffff_fffe_0010_0000;
    assign s_axi_arlen = 8'd0;
    assign s_axi_arsize = 3'd2;
    assign s_axi_rready = 1'b1;
    assign {m_axi_awready, m_axi_wready, m_axi_bvalid, m_axi_arready, m_axi_rvalid} = '0;
    assign {m_axi_bid, m_axi_bresp, m_axi_rid, m_axi_rdata, m_axi_rresp, m_axi_rlast} = '0;
    always_ff @(posedge clk) begin
        ended <= 1'b0;
        if (s_axi_awvalid && s_axi_awready || s_axi_arvalid && s_axi_arready) sent <= 1'b1;
        if (s_axi_wvalid && s_axi_wready) sent_data <= 1'b1;
        if (s_axi_bvalid || step == 3'd1 && up) {step, sent, sent_data} <= {step + 3'd1, 2'b00};
        if (s_axi_rvalid) begin
            step <= step + 3'd1;
            ended <= 1'b1;
            status <= s_axi_rdata[31:0] == 32'hb500_104c ? 8'd0 : 8'd3;
        end
        if (rst) {step, sent, sent_data} <= '0;
    end
    riser_root_complex host (
        .software_ended(ended),
        .software_status(status),
";

/// Replaces riser's CPU in `root_link.sv` by this one, and builds the design.
fn build_software(folder: &Path) {
    let lab = testkit::root().join("rtl/pcie_stack/lab");
    let [module, design] =
        ["root_link.sv", "root_link.toml"].map(|name| fs::read_to_string(lab.join(name)).unwrap());
    let (stack, ports) = module.split_once("    riser_root_complex host (\n").unwrap();
    let is_of_link = |line: &&str| !line.contains(".s_axi_") && !line.contains(".m_axi_");
    let ports: Vec<&str> = ports.lines().filter(is_of_link).collect();
    fs::create_dir_all(folder.join("lab")).unwrap();
    fs::write(folder.join("lab/software.sv"), format!("{stack}{CPU}{}\n", ports.join("\n"))).unwrap();
    fs::write(folder.join("lab/software.toml"), design.replace("\"root_link.sv\"", "\"software.sv\""))
        .unwrap();
    build(folder, &["software.toml"]);
}

#[test]
#[ignore = "of .ci/long stack"]
fn software_of_design_ends_run_with_its_status() {
    if !has_verilator() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    build_software(folder.path());
    let lab = |device: &str| format!("{HOST}[[slot]]\nname = \"device\"\ndevice = \"{device}\"\n");
    let session = run(folder.path(), &lab("endpoint-test"));
    let counts = session.fabric.design_counts(HostId::FIRST).unwrap();
    let count = |name: &str| counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, n)| *n);
    assert_eq!([count("rtl_tlps_sent"), count("rtl_tlps_received")], [1, 1]);
    // All edges count, also those at which nothing is in flight. The clock has 250 MHz.
    let cycles = session.fabric.now().as_ps() / 4000;
    assert!(count("rtl_cycles").abs_diff(cycles) <= 2, "{} of {cycles}", count("rtl_cycles"));

    let options = || BuildOptions::native(NativeCode::Allowed);
    let other = file(folder.path(), &lab("memory")).unwrap();
    let stop = Session::with(&other, options()).unwrap().fabric.run(Limits::default());
    assert_eq!(stop, Stop::Failed("software of the design ended with status 3; expected 0".into()));

    let outside = lab("memory").replace("[host]\n", "[host]\noutside = true\n");
    let outside = file(folder.path(), &outside).unwrap();
    let wrong = Session::with(&outside, options()).err().unwrap().to_string();
    assert!(wrong.contains("no other program can run on this host"), "{wrong}");
}
