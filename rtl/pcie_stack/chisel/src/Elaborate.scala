// SPDX-License-Identifier: Apache-2.0 OR MIT
package pciestack

import circt.stage.ChiselStage
import java.nio.file.{Files, Path}

/** Writes each wrapper as SystemVerilog into the directory that is the argument. */
object Elaborate extends App {
  private val options = Array("--disable-all-randomization", "--strip-debug-info", "--disable-layers=Verification")
  private val wrappers = Seq(
    "RootStack" -> (() => new RootStack(RootStackParameters())),
    "RootStackNarrow" -> (() => new RootStack(RootStackParameters(dataWidth = 128, cpuWidth = 128, maxPayload = 128, ordered = 0)) { override def desiredName = "RootStackNarrow" }),
  )
  for ((name, module) <- wrappers)
    Files.writeString(Path.of(args(0), s"$name.sv"), ChiselStage.emitSystemVerilog(module(), firtoolOpts = options))
}

/** Checks that illegal parameters are refused with a message that names them. */
object Check extends App {
  private val illegal = Seq[(String, () => Any)](
    "dataWidth is 64" -> (() => RootStackParameters(dataWidth = 64)),
    "cpuWidth is 32" -> (() => RootStackParameters(cpuWidth = 32)),
    "maxPayload is 1024" -> (() => RootStackParameters(maxPayload = 1024)),
    "readSlots is 3" -> (() => RootStackParameters(readSlots = 3)),
    "dmaSlots is 1" -> (() => RootStackParameters(dmaSlots = 1)),
    "txTlps is 8" -> (() => RootStackParameters(txTlps = 8)),
    "sizeBits is 5" -> (() => RootStackParameters(sizeBits = 5)),
    "cpuSlots is 6" -> (() => RootStackParameters(cpuSlots = 6)),
    "memorySlots is 1" -> (() => RootStackParameters(memorySlots = 1)),
  )
  for ((message, parameters) <- illegal) {
    val found = scala.util.Try(parameters()).failed.toOption.map(_.getMessage).getOrElse("no error")
    if (!found.contains(message)) throw new AssertionError(s"expected \"$message\", found \"$found\"")
  }
  println(s"chisel: ${illegal.size} illegal parameters refused")
}
