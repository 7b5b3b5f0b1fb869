// Blocks of an ECP5 as far as synth_ecp5 uses them without registers at their outputs, by Lattice's public descriptions
// (ECP5 and ECP5-5G Memory Usage Guide, FPGA-TN-02204; sysDSP Usage Guide, FPGA-TN-02205). Yosys has no models of them.

// A block memory of 16 Kbit with a ninth bit a byte: 2048 bytes of 9 bits, seen by each port in its width. Ports of 1, 2
// and 4 bits leave the ninth bit out. With 18 bits, the two lowest bits of the address enable bytes; with 36, port A
// only writes, and its four lowest bits enable bytes, and both outputs together are what B reads, or B has 18 bits.
// What a port reads while the other one writes it is not defined: here it is inverted.
module DP16KD(
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2,
    DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2,
    DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2,
    DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2,
    DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC";
    parameter ASYNC_RESET_RELEASE = "SYNC", CSDECODE_A = "0b000", CSDECODE_B = "0b000", GSR = "ENABLED";
    parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
    parameter [319:0] INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0, INITVAL_04 = 0, INITVAL_05 = 0,
    INITVAL_06 = 0, INITVAL_07 = 0, INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0, INITVAL_0C = 0,
    INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0, INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0,
    INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0, INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0,
    INITVAL_1B = 0, INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0, INITVAL_20 = 0, INITVAL_21 = 0,
    INITVAL_22 = 0, INITVAL_23 = 0, INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0, INITVAL_28 = 0,
    INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0, INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0,
    INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0, INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0,
    INITVAL_37 = 0, INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0, INITVAL_3C = 0, INITVAL_3D = 0,
    INITVAL_3E = 0, INITVAL_3F = 0;
    localparam [64 * 320 - 1:0] INIT = {INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A,
    INITVAL_39, INITVAL_38, INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31,
    INITVAL_30, INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28,
    INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20, INITVAL_1F,
    INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17, INITVAL_16,
    INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10, INITVAL_0F, INITVAL_0E, INITVAL_0D,
    INITVAL_0C, INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08, INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04,
    INITVAL_03, INITVAL_02, INITVAL_01, INITVAL_00};

    reg [8:0] bytes[0:2047];
    integer place;
    initial begin
        if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG" || CSDECODE_A != "0b000" || CSDECODE_B != "0b000"
            || CLKAMUX != "CLKA" || CLKBMUX != "CLKB")
            $fatal(1, "a block memory is used in a way that is not modelled");
        for (place = 0; place < 2048; place = place + 1)
            bytes[place] = INIT[place / 2 * 20 + place % 2 * 9 +: 9];
    end

    wire [17:0] in_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4,
    DIA3, DIA2, DIA1, DIA0};
    wire [17:0] in_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4,
    DIB3, DIB2, DIB1, DIB0};
    wire [13:0] at_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] at_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire selected_a = CEA && {CSA2, CSA1, CSA0} == 0, selected_b = CEB && {CSB2, CSB1, CSB0} == 0;
    localparam SYNC = RESETMODE == "SYNC";
    wire write_a = selected_a && WEA && !(SYNC && RSTA), write_b = selected_b && WEB && !(SYNC && RSTB);
    wire clear_a = !SYNC && RSTA, clear_b = !SYNC && RSTB;
    reg [35:0] read_a = 0, read_b = 0;
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2,
    DOA1, DOA0} = DATA_WIDTH_B == 36 ? read_b[17:0] : read_a[17:0];
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2,
    DOB1, DOB0} = DATA_WIDTH_B == 36 ? read_b[35:18] : read_b[17:0];

    // The first byte of an access, and how many there are.
    function [10:0] first(input integer width, input [13:0] at);
        first = width == 36 ? {at[13:5], 2'b00} : width == 18 ? {at[13:4], 1'b0} : at[13:3];
    endfunction

    // Bits of the first byte that a narrow port sees.
    function [8:0] part(input integer width, input [13:0] at);
        part = width == 1 ? 9'h1 << at[2:0] : width == 2 ? 9'h3 << (at[2:1] * 2)
               : width == 4 ? 9'hf << (at[2] * 4) : 9'h1ff;
    endfunction

    function integer shift(input integer width, input [13:0] at);
        shift = width == 1 ? at[2:0] : width == 2 ? at[2:1] * 2 : width == 4 ? at[2] * 4 : 0;
    endfunction

    // Which of the four bytes from the first one on are written.
    function [3:0] enabled(input integer width, input [13:0] at);
        enabled = width == 36 ? at[3:0] : width == 18 ? {2'b00, at[1:0]} : 4'b0001;
    endfunction

    wire [10:0] first_a = first(DATA_WIDTH_A, at_a), first_b = first(DATA_WIDTH_B, at_b);
    wire [8:0] part_a = part(DATA_WIDTH_A, at_a), part_b = part(DATA_WIDTH_B, at_b);
    wire [3:0] enabled_a = enabled(DATA_WIDTH_A, at_a) & {4{write_a}};
    wire [3:0] enabled_b = enabled(DATA_WIDTH_B, at_b) & {4{write_b}};
    wire [35:0] given_a = DATA_WIDTH_A == 36 ? {in_b, in_a} : {18'b0, in_a} << shift(DATA_WIDTH_A, at_a);
    wire [35:0] given_b = {18'b0, in_b} << shift(DATA_WIDTH_B, at_b);
    localparam integer READ_A = DATA_WIDTH_A == 36 ? 4 : DATA_WIDTH_A == 18 ? 2 : 1;
    localparam integer READ_B = DATA_WIDTH_B == 36 ? 4 : DATA_WIDTH_B == 18 ? 2 : 1;

    // A byte as it is, and as a port's write leaves it; whether the other port writes it.
    function [8:0] after(input [8:0] old, input [8:0] given, input [8:0] mask, input enable);
        after = enable ? old & ~mask | given & mask : old;
    endfunction

    function writes(input [10:0] byte_at, input [10:0] from, input [3:0] enable);
        reg [10:0] distance;
        begin
            distance = byte_at - from;
            writes = distance < 4 && enable[distance[1:0]];
        end
    endfunction

    integer number_a, number_b, place_a, place_b;
    reg [35:0] seen_a, seen_b;
    always @* begin
        seen_a = 0;
        for (number_a = 0; number_a < READ_A; number_a = number_a + 1) begin
            seen_a[9 * number_a +: 9] = (WRITEMODE_A == "WRITETHROUGH" ? after(
                bytes[first_a + number_a], given_a[9 * number_a +: 9], part_a, enabled_a[number_a])
                : bytes[first_a + number_a]) ^ {9{writes(first_a + number_a, first_b, enabled_b)}};
        end
    end
    always @(posedge CLKA) begin
        for (place_a = 0; place_a < READ_A; place_a = place_a + 1)
            if (enabled_a[place_a])
                bytes[first_a + place_a] <= after(
                    bytes[first_a + place_a], given_a[9 * place_a +: 9], part_a, 1'b1);
    end
    always @(posedge CLKA, posedge clear_a) begin
        if (clear_a || RSTA)
            read_a <= 0;
        else if (selected_a && !(WEA && WRITEMODE_A == "NORMAL"))
            read_a <= (seen_a & {27'h7ffffff, part_a}) >> shift(DATA_WIDTH_A, at_a);
    end
    always @* begin
        seen_b = 0;
        for (number_b = 0; number_b < READ_B; number_b = number_b + 1) begin
            seen_b[9 * number_b +: 9] = (WRITEMODE_B == "WRITETHROUGH" ? after(
                bytes[first_b + number_b], given_b[9 * number_b +: 9], part_b, enabled_b[number_b])
                : bytes[first_b + number_b]) ^ {9{writes(first_b + number_b, first_a, enabled_a)}};
        end
    end
    always @(posedge CLKB) begin
        for (place_b = 0; place_b < READ_B; place_b = place_b + 1)
            if (enabled_b[place_b])
                bytes[first_b + place_b] <= after(
                    bytes[first_b + place_b], given_b[9 * place_b +: 9], part_b, 1'b1);
    end
    always @(posedge CLKB, posedge clear_b) begin
        if (clear_b || RSTB)
            read_b <= 0;
        else if (selected_b && !(WEB && WRITEMODE_B == "NORMAL"))
            read_b <= (seen_b & {27'h7ffffff, part_b}) >> shift(DATA_WIDTH_B, at_b);
    end
endmodule

// A multiplier of 18 x 18 bits, without registers.
module MULT18X18D(
    input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CE3, CE2, CE1, CE0, CLK3, CLK2, CLK1, CLK0, RST3, RST2, RST1, RST0,
    input SRIA17, SRIA16, SRIA15, SRIA14, SRIA13, SRIA12, SRIA11, SRIA10, SRIA9, SRIA8, SRIA7, SRIA6, SRIA5, SRIA4,
    SRIA3, SRIA2, SRIA1, SRIA0,
    input SRIB17, SRIB16, SRIB15, SRIB14, SRIB13, SRIB12, SRIB11, SRIB10, SRIB9, SRIB8, SRIB7, SRIB6, SRIB5, SRIB4,
    SRIB3, SRIB2, SRIB1, SRIB0,
    output SROA17, SROA16, SROA15, SROA14, SROA13, SROA12, SROA11, SROA10, SROA9, SROA8, SROA7, SROA6, SROA5, SROA4,
    SROA3, SROA2, SROA1, SROA0,
    output SROB17, SROB16, SROB15, SROB14, SROB13, SROB12, SROB11, SROB10, SROB9, SROB8, SROB7, SROB6, SROB5, SROB4,
    SROB3, SROB2, SROB1, SROB0,
    output ROA17, ROA16, ROA15, ROA14, ROA13, ROA12, ROA11, ROA10, ROA9, ROA8, ROA7, ROA6, ROA5, ROA4, ROA3, ROA2,
    ROA1, ROA0,
    output ROB17, ROB16, ROB15, ROB14, ROB13, ROB12, ROB11, ROB10, ROB9, ROB8, ROB7, ROB6, ROB5, ROB4, ROB3, ROB2,
    ROB1, ROB0,
    output ROC17, ROC16, ROC15, ROC14, ROC13, ROC12, ROC11, ROC10, ROC9, ROC8, ROC7, ROC6, ROC5, ROC4, ROC3, ROC2,
    ROC1, ROC0,
    output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15,
    P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0,
    output SIGNEDP
);
    wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
    wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
    wire signed [35:0] wide_a = {{18{SIGNEDA & a[17]}}, a}, wide_b = {{18{SIGNEDB & b[17]}}, b};
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15,
    P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = wide_a * wide_b;
endmodule
