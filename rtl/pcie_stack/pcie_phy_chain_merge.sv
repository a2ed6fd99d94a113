// SPDX-License-Identifier: Apache-2.0 OR MIT
// Chains of tokens from each possible begin, over groups of twice HALF double-words, from those over groups of HALF. Combinational.
// chains: for begin i, in bits D*i+D-1:D*i, which double-words to the end of its group begin tokens. outs: from the end of the group to the next token.
// stops: the chain meets a double-word that ends it, so outs has no meaning.
module pcie_phy_chain_merge #(
    parameter int D = 8,
    parameter int HALF = 1,
    parameter int OUT = 11
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
            if ((i & HALF) == 0 && !stops_in[i]) begin
                if (outs_in[OUT*i+:OUT] >= OUT'(HALF)) outs[OUT*i+:OUT] = outs_in[OUT*i+:OUT] - OUT'(HALF);
                for (int n = 0; n < HALF; n++)
                    if (outs_in[OUT*i+:OUT] == OUT'(n)) begin
                        // The chain goes on in the upper half, which begins at the next multiple of HALF.
                        chains[D*i+:D] = chains_in[D*i+:D] | chains_in[D*(((i|(HALF-1))+1+n)%D)+:D];
                        outs[OUT*i+:OUT] = outs_in[OUT*(((i|(HALF-1))+1+n)%D)+:OUT];
                        stops[i] = stops_in[((i|(HALF-1))+1+n)%D];
                    end
            end
    end
endmodule
