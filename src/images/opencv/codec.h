/* What lies between the server and its library for images (libbraid_opencv.so), the only part of it that is
 * linked with OpenCV: one function, which gives a table of others. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct BraidImageCodec {
  /* Decodes an image to 8 bits a channel: one channel when `gray`, else three, in the order blue, green, red.
   * NULL when it cannot be read. */
  void* (*decode)(const uint8_t* bytes, size_t size, int gray, int64_t* width, int64_t* height);
  /* Writes the pixels, height * width * channels bytes without gaps between the rows, resized bilinearly
   * where the size is another one. 0 when it has. */
  int (*write)(const void* image, int64_t width, int64_t height, uint8_t* pixels);
  /* Ends an image. */
  void (*end)(void* image);
};

#ifdef __cplusplus
extern "C"
#endif
    const struct BraidImageCodec*
    braid_image_codec(void);
