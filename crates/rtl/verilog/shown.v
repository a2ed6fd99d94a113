// For waves: the last TLP that the block received, and the last TLP that it passed to the link, each with a count. Also
// the credits of VC0 that both ends of the link have left (riser_out_ of the design's end). Infinite credits are zero,
// with a flag bit.
import "DPI-C" function void riser_show(output bit [575:0] shown);
bit [575:0] riser_shown;
always @(posedge riser_clock) riser_show(riser_shown);
wire [31:0] riser_in_count = riser_shown[31:0];
wire [127:0] riser_in_header = riser_shown[159:32];
wire [31:0] riser_out_count = riser_shown[191:160];
wire [127:0] riser_out_header = riser_shown[319:192];
wire [7:0] riser_in_fmt_type = riser_in_header[127:120], riser_out_fmt_type = riser_out_header[127:120];
wire [9:0] riser_in_length_dw = riser_in_header[105:96], riser_out_length_dw = riser_out_header[105:96];
wire riser_in_is_completion = riser_in_fmt_type[4:1] == 4'b0101, riser_out_is_completion = riser_out_fmt_type[4:1] == 4'b0101;
wire [15:0] riser_in_requester = riser_in_is_completion ? riser_in_header[63:48] : riser_in_header[95:80];
wire [15:0] riser_out_requester = riser_out_is_completion ? riser_out_header[63:48] : riser_out_header[95:80];
wire [9:0] riser_in_tag = {riser_in_header[119], riser_in_header[115], riser_in_is_completion ? riser_in_header[47:40] : riser_in_header[79:72]};
wire [9:0] riser_out_tag = {riser_out_header[119], riser_out_header[115], riser_out_is_completion ? riser_out_header[47:40] : riser_out_header[79:72]};
wire [2:0] riser_in_status = riser_in_is_completion ? riser_in_header[79:77] : 3'd0;
wire [2:0] riser_out_status = riser_out_is_completion ? riser_out_header[79:77] : 3'd0;
wire [63:0] riser_in_address = riser_in_fmt_type[5] ? riser_in_header[63:0] : {32'd0, riser_in_header[63:32]};
wire [63:0] riser_out_address = riser_out_fmt_type[5] ? riser_out_header[63:0] : {32'd0, riser_out_header[63:32]};
wire [15:0] riser_in_credits_ph = riser_shown[335:320], riser_in_credits_pd = riser_shown[351:336];
wire [15:0] riser_in_credits_nph = riser_shown[367:352], riser_in_credits_npd = riser_shown[383:368];
wire [15:0] riser_in_credits_cplh = riser_shown[399:384], riser_in_credits_cpld = riser_shown[415:400];
wire riser_in_credits_ph_infinite = riser_shown[416], riser_in_credits_pd_infinite = riser_shown[417], riser_in_credits_nph_infinite = riser_shown[418], riser_in_credits_npd_infinite = riser_shown[419], riser_in_credits_cplh_infinite = riser_shown[420], riser_in_credits_cpld_infinite = riser_shown[421];
wire [15:0] riser_out_credits_ph = riser_shown[463:448], riser_out_credits_pd = riser_shown[479:464];
wire [15:0] riser_out_credits_nph = riser_shown[495:480], riser_out_credits_npd = riser_shown[511:496];
wire [15:0] riser_out_credits_cplh = riser_shown[527:512], riser_out_credits_cpld = riser_shown[543:528];
wire riser_out_credits_ph_infinite = riser_shown[544], riser_out_credits_pd_infinite = riser_shown[545], riser_out_credits_nph_infinite = riser_shown[546], riser_out_credits_npd_infinite = riser_shown[547], riser_out_credits_cplh_infinite = riser_shown[548], riser_out_credits_cpld_infinite = riser_shown[549];
