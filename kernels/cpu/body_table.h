/* The functions of the bodies, as fields of struct sl_cpu_simd. */
.act_forward = act_forward,
	.act_backward = act_backward, .sum = sum, .scale = scale, .dropout = dropout, .sgd = sgd, .adam = adam,
	.row_sum = row_sum, .add_row = add_row, .window_sum = window_sum, .moments = moments, .bn_forward = bn_forward,
	.bn_forward_stream = bn_forward_stream, .copy_row = copy_row, .stream_end = stream_end, .patches = patches,
	.bn_sums = bn_sums, .bn_backward = bn_backward, .dw_row = dw_row, .dw_weight_row = dw_weight_row,
	.dw_data_row2 = dw_data_row2, .dw_fill = dw_fill, .dw_fill_back = dw_fill_back, .dw_place = dw_place,
	.gemm_rows = gemm_rows, .gemm_outer = gemm_outer, .panel = PANEL, .tile_rows = TILE_ROWS,
