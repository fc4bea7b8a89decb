// Exports the inline functions of bpf/ under names that the linker finds.
#include "fingerprint.h"

int fb_c_parse(void *data, void *data_end, __u32 framing, __u32 whole, struct fb_headers *h);
int fb_c_fingerprint(void *data, void *data_end, const struct fb_headers *h,
		     const __u64 *key, const struct fb_segment *segment, __u32 *fingerprint);

int fb_c_parse(void *data, void *data_end, __u32 framing, __u32 whole, struct fb_headers *h)
{
	return fb_parse(data, data_end, framing, whole, h);
}

int fb_c_fingerprint(void *data, void *data_end, const struct fb_headers *h,
		     const __u64 *key, const struct fb_segment *segment, __u32 *fingerprint)
{
	return segment ? fb_fingerprint_segment(data, data_end, h, key, segment, fingerprint)
		       : fb_fingerprint(data, data_end, h, key, fingerprint);
}
