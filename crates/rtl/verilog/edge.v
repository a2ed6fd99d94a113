// riser is called at an edge if it has new inputs, if it is not idle, or if the design drives other values than when
// riser became idle. Any other edge has no effect.
bit riser_rests, riser_is_asked;
initial riser_rests = 1'b0;
always @(posedge riser_clock) begin
    riser_is_asked = riser_top.riser_asks | ~riser_rests;
    if (!riser_is_asked) riser_is_asked = riser_read != riser_before;
    if (riser_is_asked) begin
        riser_rests = riser_edge(riser_read, riser_next);
        if (riser_rests) riser_before = riser_read;
    end
    riser_driven <= riser_next;
end
