// SPDX-License-Identifier: Apache-2.0 OR MIT
// Chains of tokens from each possible begin, over groups of twice HALF double-words, from those over groups of HALF. Combinational.
// chains: for begin i, in bits D*i+D-1:D*i, which double-words to the end of its group begin tokens. outs: place of the next token, from the end of
// the word, so it is negative within the word. stops: the chain meets a double-word that ends it, so outs has no meaning.
module pcie_phy_chain_merge #(
    parameter int D = 8,
    parameter int HALF = 1,
    parameter int OUT = 12
) (
    input logic [D*D-1:0] chains_in,
    input logic [OUT*D-1:0] outs_in,
    input logic [D-1:0] stops_in,
    output logic [D*D-1:0] chains,
    output logic [OUT*D-1:0] outs,
    output logic [D-1:0] stops
);
    always_comb begin
        chains = chains_in;
        outs = outs_in;
        stops = stops_in;
        for (int i = 0; i < D; i++)
            if ((i & HALF) == 0 && !stops_in[i])
                // The upper half begins at the next multiple of HALF.
                for (int n = (i | (HALF - 1)) + 1; n < (i | (2 * HALF - 1)) + 1; n++)
                    if (outs_in[OUT*i+OUT-1] && outs_in[OUT*i+:$clog2(D)] == $clog2(D)'(n)) begin
                        chains[D*i+:D] = chains_in[D*i+:D] | chains_in[D*n+:D];
                        outs[OUT*i+:OUT] = outs_in[OUT*n+:OUT];
                        stops[i] = stops_in[n];
                    end
    end
endmodule
