// riser is asked at an edge where something has come for it, where it does not rest, and where the design shows something else than when its
// rest began: any other edge changes nothing.
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
