#include "textflag.h"

// func skipBlocks(p []byte, escaped bool) int
TEXT ·skipBlocks(SB), NOSPLIT, $0-40
	MOVQ p_base+0(FP), SI
	MOVQ p_len+8(FP), CX
	MOVBLZX escaped+24(FP), R8 // 1 if the next byte is escaped
	XORQ AX, AX                // bytes skipped
	SUBQ $32, CX               // the last index at which a block begins
	JL   done

	MOVL         $0x22, DX // quote
	VMOVD        DX, X1
	VPBROADCASTB X1, Y1
	MOVL         $0x5c, DX // backslash
	VMOVD        DX, X2
	VPBROADCASTB X2, Y2

block:
	VMOVDQU   (SI)(AX*1), Y0
	VPCMPEQB  Y1, Y0, Y3
	VPCMPEQB  Y2, Y0, Y4
	VPMOVMSKB Y3, R9       // quotes
	VPMOVMSKB Y4, R10      // backslashes
	LEAL      (R8)(R10*2), R11 // escaped, if no backslash follows another one
	MOVL      R11, R12
	NOTL      R12
	ANDL      R9, R12      // quotes that are not escaped
	ANDL      R10, R11     // escaped backslashes
	ORL       R12, R11
	JNZ       end
	MOVL      R10, R8
	SHRL      $31, R8
	ADDQ      $32, AX
	CMPQ      AX, CX
	JLE       block

end:
	VZEROUPPER

done:
	MOVQ AX, ret+32(FP)
	RET
