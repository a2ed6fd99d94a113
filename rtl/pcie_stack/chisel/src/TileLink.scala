// SPDX-License-Identifier: Apache-2.0 OR MIT
package pciestack

import chisel3._
import chisel3.util.Decoupled

/** Widths of a TileLink port. Addresses have 64 bits.
  *
  * @param dataBits   bits of data in a beat
  * @param sourceBits bits of `source`
  * @param sizeBits   bits of `size`
  */
case class TileLinkParameters(dataBits: Int, sourceBits: Int, sizeBits: Int)

/** Channel A, with the field names of Rocket Chip's `TLBundleA`. */
class TileLinkA(p: TileLinkParameters) extends Bundle {
  val opcode = UInt(3.W)
  val param = UInt(3.W)
  val size = UInt(p.sizeBits.W)
  val source = UInt(p.sourceBits.W)
  val address = UInt(64.W)
  val mask = UInt((p.dataBits / 8).W)
  val data = UInt(p.dataBits.W)
  val corrupt = Bool()
}

/** Channel D, with the field names of Rocket Chip's `TLBundleD`. */
class TileLinkD(p: TileLinkParameters) extends Bundle {
  val opcode = UInt(3.W)
  val param = UInt(2.W)
  val size = UInt(p.sizeBits.W)
  val source = UInt(p.sourceBits.W)
  val sink = UInt(1.W)
  val denied = Bool()
  val data = UInt(p.dataBits.W)
  val corrupt = Bool()
}

/** Channels A and D as a client drives them. */
class TileLink(p: TileLinkParameters) extends Bundle {
  val a = Decoupled(new TileLinkA(p))
  val d = Flipped(Decoupled(new TileLinkD(p)))
}

/** The same channels as the Verilog modules name them: `a_valid`, `a_opcode`, ... */
class TileLinkPins(p: TileLinkParameters) extends Bundle {
  val a_valid = Output(Bool())
  val a_ready = Input(Bool())
  val a_opcode = Output(UInt(3.W))
  val a_param = Output(UInt(3.W))
  val a_size = Output(UInt(p.sizeBits.W))
  val a_source = Output(UInt(p.sourceBits.W))
  val a_address = Output(UInt(64.W))
  val a_mask = Output(UInt((p.dataBits / 8).W))
  val a_data = Output(UInt(p.dataBits.W))
  val a_corrupt = Output(Bool())
  val d_valid = Input(Bool())
  val d_ready = Output(Bool())
  val d_opcode = Input(UInt(3.W))
  val d_param = Input(UInt(2.W))
  val d_size = Input(UInt(p.sizeBits.W))
  val d_source = Input(UInt(p.sourceBits.W))
  val d_sink = Input(UInt(1.W))
  val d_denied = Input(Bool())
  val d_data = Input(UInt(p.dataBits.W))
  val d_corrupt = Input(Bool())

  private def a: Seq[(String, Data)] =
    Seq("opcode" -> a_opcode, "param" -> a_param, "size" -> a_size, "source" -> a_source, "address" -> a_address, "mask" -> a_mask, "data" -> a_data, "corrupt" -> a_corrupt)

  private def d: Seq[(String, Data)] =
    Seq("opcode" -> d_opcode, "param" -> d_param, "size" -> d_size, "source" -> d_source, "sink" -> d_sink, "denied" -> d_denied, "data" -> d_data, "corrupt" -> d_corrupt)

  /** Connects these pins of a manager to a client's channels. */
  def isManagerOf(client: TileLink): Unit = {
    a_valid := client.a.valid
    client.a.ready := a_ready
    for ((name, pin) <- a) pin := client.a.bits.elements(name)
    client.d.valid := d_valid
    d_ready := client.d.ready
    for ((name, pin) <- d) client.d.bits.elements(name) := pin
  }

  /** Connects these pins of a client to a manager's channels. */
  def isClientOf(manager: TileLink): Unit = {
    manager.a.valid := a_valid
    a_ready := manager.a.ready
    for ((name, pin) <- a) manager.a.bits.elements(name) := pin
    d_valid := manager.d.valid
    manager.d.ready := d_ready
    for ((name, pin) <- d) pin := manager.d.bits.elements(name)
  }
}
