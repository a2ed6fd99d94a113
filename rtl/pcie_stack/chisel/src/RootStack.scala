// SPDX-License-Identifier: Apache-2.0 OR MIT
package pciestack

import chisel3._

/** Parameters of `pcie_root_stack_tilelink`, with its defaults. Sizes and addresses are those of ROOT_COMPLEX.md.
  *
  * @param dataWidth of TLPs, of frames and of messages to memory: 128, 256 or 512
  * @param cpuWidth of messages of the CPU
  * @param maxPayload 128, 256 or 512
  * @param sourceBits of the CPU's messages
  * @param sizeBits of both TileLink ports
  * @param cpuSlots requests of the CPU in flight
  * @param cpuMaxBytes longest message of the CPU
  * @param memorySlots Gets to memory in flight, and Puts
  * @param memoryMaxBytes longest message to memory
  * @param ordered 0: the bus of the memory keeps the order of Puts
  * @param memoryTimeout cycles without progress of the memory
  */
case class RootStackParameters(
    dataWidth: Int = 256,
    cpuWidth: Int = 64,
    maxPayload: Int = 256,
    readSlots: Int = 8,
    readBytes: Int = 128,
    dmaSlots: Int = 8,
    maxBurst: Int = 16,
    registerBase: BigInt = BigInt("20000000", 16),
    ecamBase: BigInt = BigInt("30000000", 16),
    ecamBuses: Int = 256,
    memory32Base: BigInt = BigInt("40000000", 16),
    memory32Size: BigInt = BigInt("40000000", 16),
    memory64Base: BigInt = BigInt("4000000000", 16),
    memory64Size: BigInt = BigInt("4000000000", 16),
    vendorId: Int = 0x1234,
    deviceId: Int = 0x5243,
    linkSpeed: Int = 3,
    linkWidth: Int = 8,
    completionTimeout: Int = 2500000,
    busTimeout: Int = 100000,
    txBytes: Int = 4096,
    txTlps: Int = 16,
    rxPHeaders: Int = 96,
    rxPData: Int = 736,
    rxNpHeaders: Int = 64,
    rxNpData: Int = 32,
    rxCplHeaders: Int = 96,
    rxCplData: Int = 736,
    blockRam: Int = 1,
    replayBytes: Int = 8192,
    replayTlps: Int = 128,
    cutThrough: Int = 1,
    featureExchange: Int = 1,
    initFcCycles: Int = 1024,
    counterWidth: Int = 16,
    sourceBits: Int = 4,
    sizeBits: Int = 4,
    cpuSlots: Int = 8,
    cpuMaxBytes: Int = 64,
    memorySlots: Int = 8,
    memoryMaxBytes: Int = 64,
    ordered: Int = 1,
    memoryTimeout: Int = 50000,
) {
  require(Set(128, 256, 512)(dataWidth), s"dataWidth is $dataWidth; expected 128, 256 or 512")
  require(Set(64, 128, 256, 512)(cpuWidth), s"cpuWidth is $cpuWidth; expected 64, 128, 256 or 512")
  require(Set(128, 256, 512)(maxPayload), s"maxPayload is $maxPayload; expected 128, 256 or 512")
  require(Set(2, 4, 8, 16)(readSlots), s"readSlots is $readSlots; expected 2, 4, 8 or 16")
  require(Set(2, 4, 8, 16)(dmaSlots), s"dmaSlots is $dmaSlots; expected 2, 4, 8 or 16")
  require(readSlots + 1 < txTlps, s"txTlps is $txTlps; expected more than readSlots + 1")
  require(2 <= sizeBits && sizeBits <= 4, s"sizeBits is $sizeBits; expected 2 to 4")
  for ((name, slots) <- Seq("cpuSlots" -> cpuSlots, "memorySlots" -> memorySlots))
    require(Set(2, 4, 8, 16, 32, 64)(slots), s"$name is $slots; expected a power of two from 2 to 64")

  /** Width of the sources of messages to memory. */
  def memorySourceBits: Int = BigInt(memorySlots).bitLength

  /** The CPU's TileLink port. */
  def cpu: TileLinkParameters = TileLinkParameters(cpuWidth, sourceBits, sizeBits)

  /** The memory's TileLink port. */
  def memory: TileLinkParameters = TileLinkParameters(dataWidth, memorySourceBits, sizeBits)

  // firtool would give such a constant fewer bits.
  private def bits64(value: BigInt) = RawParam(s"64'h${value.toString(16)}")

  /** The parameters of the Verilog module. */
  def verilog: Map[String, Param] = Map[String, Param](
    "DATA_WIDTH" -> dataWidth,
    "CPU_WIDTH" -> cpuWidth,
    "MAX_PAYLOAD" -> maxPayload,
    "READ_SLOTS" -> readSlots,
    "READ_BYTES" -> readBytes,
    "DMA_SLOTS" -> dmaSlots,
    "MAX_BURST" -> maxBurst,
    "REGISTER_BASE" -> bits64(registerBase),
    "ECAM_BASE" -> bits64(ecamBase),
    "ECAM_BUSES" -> ecamBuses,
    "MEMORY32_BASE" -> bits64(memory32Base),
    "MEMORY32_SIZE" -> bits64(memory32Size),
    "MEMORY64_BASE" -> bits64(memory64Base),
    "MEMORY64_SIZE" -> bits64(memory64Size),
    "VENDOR_ID" -> vendorId,
    "DEVICE_ID" -> deviceId,
    "LINK_SPEED" -> linkSpeed,
    "LINK_WIDTH" -> linkWidth,
    "COMPLETION_TIMEOUT" -> completionTimeout,
    "BUS_TIMEOUT" -> busTimeout,
    "TX_BYTES" -> txBytes,
    "TX_TLPS" -> txTlps,
    "RX_P_HEADERS" -> rxPHeaders,
    "RX_P_DATA" -> rxPData,
    "RX_NP_HEADERS" -> rxNpHeaders,
    "RX_NP_DATA" -> rxNpData,
    "RX_CPL_HEADERS" -> rxCplHeaders,
    "RX_CPL_DATA" -> rxCplData,
    "BLOCK_RAM" -> blockRam,
    "REPLAY_BYTES" -> replayBytes,
    "REPLAY_TLPS" -> replayTlps,
    "CUT_THROUGH" -> cutThrough,
    "FEATURE_EXCHANGE" -> featureExchange,
    "INIT_FC_CYCLES" -> initFcCycles,
    "COUNTER_WIDTH" -> counterWidth,
    "SOURCE_BITS" -> sourceBits,
    "SIZE_BITS" -> sizeBits,
    "CPU_SLOTS" -> cpuSlots,
    "CPU_MAX_BYTES" -> cpuMaxBytes,
    "MEMORY_SLOTS" -> memorySlots,
    "MEMORY_MAX_BYTES" -> memoryMaxBytes,
    "ORDERED" -> ordered,
    "MEMORY_TIMEOUT" -> memoryTimeout,
  )
}

/** The frames to and from the physical layer, and the settings of the data link layer (README.md). */
class RootStackLink(dataWidth: Int) extends Bundle {
  private val laneBits = BigInt(dataWidth / 32 - 1).bitLength
  val replay_timer_limit = Input(UInt(16.W))
  val ack_latency_limit = Input(UInt(16.W))
  val ack_count_limit = Input(UInt(8.W))
  val update_fc_latency_limit = Input(UInt(16.W))
  val update_fc_period = Input(UInt(24.W))
  val local_features = Input(UInt(23.W))
  val phy_link_up = Input(Bool())
  val phy_recovery = Input(Bool())
  val retrain_request = Output(Bool())
  val phy_tx_valid = Output(Bool())
  val phy_tx_sop = Output(Bool())
  val phy_tx_eop = Output(Bool())
  val phy_tx_dllp = Output(Bool())
  val phy_tx_nullify = Output(Bool())
  val phy_tx_end = Output(UInt(laneBits.W))
  val phy_tx_data = Output(UInt(dataWidth.W))
  val phy_tx_ready = Input(Bool())
  val phy_rx_valid = Input(Bool())
  val phy_rx_sop = Input(Bool())
  val phy_rx_eop = Input(Bool())
  val phy_rx_dllp = Input(Bool())
  val phy_rx_nullify = Input(Bool())
  val phy_rx_error = Input(Bool())
  val phy_rx_end = Input(UInt(laneBits.W))
  val phy_rx_data = Input(UInt(dataWidth.W))
  val link_speed = Input(UInt(4.W))
  val link_width = Input(UInt(6.W))
  val link_disable = Output(Bool())
  val hot_reset = Output(Bool())
  val dl_up = Output(Bool())
}

/** Interrupts and events of the root complex (ROOT_COMPLEX.md) and of its two TileLink bridges (TILELINK.md). */
class RootStackStatus(counterWidth: Int) extends Bundle {
  val intx = Output(UInt(4.W))
  val msi_pending = Output(UInt(32.W))
  val msi_pulse = Output(UInt(32.W))
  val msi_interrupt = Output(Bool())
  val event_interrupt = Output(Bool())
  val system_error = Output(Bool())
  val events = Output(UInt(24.W))
  val dll_events = Output(UInt(16.W))
  val tl_events = Output(UInt(15.W))
  val cpu_events = Output(UInt(10.W))
  val memory_events = Output(UInt(10.W))
  val cpu_counts = Output(UInt((10 * counterWidth).W))
  val memory_counts = Output(UInt((10 * counterWidth).W))
}

/** The Verilog module itself, with its own port names. */
class RootStackBlackBox(p: RootStackParameters) extends ExtModule(p.verilog) {
  override def desiredName = "pcie_root_stack_tilelink"
  val clk = IO(Input(Clock()))
  val rst = IO(Input(Bool()))
  val cpu = IO(Flipped(new TileLinkPins(p.cpu)))
  val memory = IO(new TileLinkPins(p.memory))
  val link = FlatIO(new RootStackLink(p.dataWidth))
  val status = FlatIO(new RootStackStatus(p.counterWidth))
}

/** A root port between two TileLink ports and the frames of its link. `reset` must be synchronous. */
class RootStack(p: RootStackParameters) extends Module {
  override def resetType = Module.ResetType.Synchronous
  val cpu = IO(Flipped(new TileLink(p.cpu)))
  val memory = IO(new TileLink(p.memory))
  val link = IO(new RootStackLink(p.dataWidth))
  val status = IO(new RootStackStatus(p.counterWidth))
  private val stack = Module(new RootStackBlackBox(p))
  stack.clk := clock
  stack.rst := reset.asBool
  stack.cpu.isManagerOf(cpu)
  stack.memory.isClientOf(memory)
  stack.link <> link
  stack.status <> status
}
