#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Compiles the wrappers with Chisel 7, checks their parameters, elaborates them by firtool, and runs Verilator's lint on the result together with
# the stack. Needs Java, Maven, its default repository or a copy of it, Verilator and Linux on x86-64. Downloads 330 MB the first time; 300 MB of it is
# firtool with its tools. NO_FIRTOOL=1 leaves out firtool and the lint.
set -eu
cd "$(dirname "$0")"
out=../build/chisel
mkdir -p "$out/classes" "$out/verilog"
[ -e "$out/classpath" ] && [ "$out/classpath" -nt pom.xml ] || mvn -B -q dependency:build-classpath -Dmdep.outputFile="$(pwd)/$out/classpath"
classpath=$(cat "$out/classpath")
plugin=$(tr ':' '\n' <"$out/classpath" | grep /chisel-plugin_)
java -cp "$classpath" scala.tools.nsc.Main -classpath "$classpath" -Xplugin:"$plugin" -Xplugin-require:chiselplugin -deprecation -feature -Xfatal-warnings \
    -d "$out/classes" src/*.scala
echo "chisel: compiled"
java -cp "$out/classes:$classpath" pciestack.Check
[ -z "${NO_FIRTOOL:-}" ] || exit 0
version=$(java -cp "$classpath" scala.tools.nsc.MainGenericRunner -usejavacp -e 'println(chisel3.BuildInfo.firtoolVersion.get)')
firtool=$out/firtool-$version
if [ ! -x "$firtool/firtool" ]; then
    mvn -B -q dependency:unpack -Dartifact="org.chipsalliance:llvm-firtool:$version" -DoutputDirectory="$(pwd)/$firtool" \
        -Dmdep.unpack.includes="org.chipsalliance/llvm-firtool/linux-x64/bin/firtool"
    mv "$firtool/org.chipsalliance/llvm-firtool/linux-x64/bin/firtool" "$firtool/"
    rm -rf "$firtool/org.chipsalliance" && chmod +x "$firtool/firtool"
fi
rm -f "$out"/verilog/*
CHISEL_FIRTOOL_PATH="$(pwd)/$firtool" java -cp "$out/classes:$classpath" pciestack.Elaborate "$out/verilog"
for file in "$out"/verilog/*.sv; do
    top=$(basename "$file" .sv)
    verilator --lint-only -Wall -Wno-DECLFILENAME -y .. -I.. --top-module "$top" "$file"
    echo "chisel: $top elaborated, lint clean"
done
