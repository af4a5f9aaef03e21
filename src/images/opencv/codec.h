/* The interface of the image library (libbraid_opencv.so), the only part of the server that is linked with
 * OpenCV. It has one function, which returns a table of functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct BraidImageCodec {
  /* Decodes an image to 8 bits per channel: one channel if `gray`, else three in the order blue, green, red.
   * Returns NULL if it cannot be read. */
  void* (*decode)(const uint8_t* bytes, size_t size, int gray, int64_t* width, int64_t* height);
  /* Writes the pixels, height * width * channels bytes without gaps between the rows. Resizes bilinearly if
   * the size differs. Returns 0 on success. */
  int (*write)(const void* image, int64_t width, int64_t height, uint8_t* pixels);
  /* Frees an image. */
  void (*end)(void* image);
};

#ifdef __cplusplus
extern "C"
#endif
    const struct BraidImageCodec*
    braid_image_codec(void);
